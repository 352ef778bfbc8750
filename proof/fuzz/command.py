"""Nonsense at every door: each is a module, whose first lines say what must never come of it.

Seeded: the same seed gives the same inputs. With ``--guided`` a fuzzer that sees which lines run
looks for inputs to those doors that are pure, for as long as it is told.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable

from proof.fuzz.codec import codec
from proof.fuzz.config import config
from proof.fuzz.guided import PURE, guided
from proof.fuzz.model import model
from proof.fuzz.starter import starter
from proof.fuzz.toolserver import toolserver
from proof.fuzz.wire import wire

DOORS: dict[str, Callable[[random.Random, int], list[str]]] = {
    "wire": wire,
    "codec": codec,
    "config": config,
    "model": model,
    "toolserver": toolserver,
    "starter": starter,
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Of this command."""
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=3_000, help="inputs at each door (3000)")
    parser.add_argument("--only", choices=sorted(DOORS), default="", help="one door")
    parser.add_argument(
        "--guided", choices=sorted(PURE), default="", help="one door, by what its inputs reach"
    )


def main(args: argparse.Namespace) -> int:
    """Run it; 0 if nothing is violated."""
    if args.guided:
        return guided(args.guided, args.seed, args.count)
    failed = 0
    for name in [args.only] if args.only else DOORS:
        begun, rnd = time.perf_counter(), random.Random(args.seed)
        found = DOORS[name](rnd, args.count)
        took = time.perf_counter() - begun
        print(f"{name}: {args.count} inputs, {len(found)} violations, {took:.1f} s", flush=True)
        for one in found[:10]:
            print(f"   VIOLATION {one}")
        failed += len(found)
    return bool(failed)
