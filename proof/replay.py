"""``replay TOKEN``: run one schedule again and tell it as a story.

A line is one thing that happened. ``~`` marks where the order was not the usual one, ``!`` a fault.
"""

from __future__ import annotations

import argparse
import sys

from proof.explore import story_of
from proof.scenarios import all_scenarios
from proof.tokens import Token


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("token", help="as explore, sweep, quick or full printed it")


def main(args: argparse.Namespace) -> int:
    try:
        token = Token.parse(args.token)
        scenario = all_scenarios()[token.scenario]
    except KeyError as exc:
        print(f"there is no scenario {exc}; python -m proof explore --list", file=sys.stderr)
        return 2
    except ValueError as exc:
        print(exc, file=sys.stderr)
        return 2
    outcome = story_of(token)
    print(f"{scenario.name}: {scenario.about}")
    for line in outcome.story:
        print(f"  {line}")
    print(f"{outcome.steps} steps, {len(outcome.deviations)} deviations")
    return 1 if outcome.violation else 0
