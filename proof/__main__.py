"""``python -m proof COMMAND``: what is promised, tried in one command each.

Every command is a module with ``add_arguments(parser)`` and ``main(args) -> int``; only the one
that is asked for is imported.
"""

from __future__ import annotations

import argparse
import importlib
import signal
import sys
from collections.abc import Sequence

COMMANDS: dict[str, tuple[str, str]] = {
    "mutants": ("proof.mutants.command", "every guard, removed, is noticed by a test"),
    "cases": ("proof.cases", "writes docs/cases.md: what holds each known way to break"),
    "explore": ("proof.explore", "many schedules of each scenario; what breaks, with tokens"),
    "quick": ("proof.quick", "what is run before a change lands"),
    "full": ("proof.full", "a million schedules and the whole sweep; resumable"),
    "sweep": ("proof.sweep", "a fault at every await of every operation"),
    "replay": ("proof.replay", "one schedule again, told as a story"),
    "chaos": ("proof.chaos.command", "the reported scenarios over real sockets"),
    "fuzz": ("proof.fuzz.command", "nonsense at every door"),
    "soak": ("proof.soak.command", "everything, for minutes, with faults: nothing grows"),
    "lifecycles": (
        "proof.lifecycles",
        "sessions with a process each: nothing left, no growth",
    ),
}


def main(argv: Sequence[str]) -> int:
    """Run the command that `argv` names; its exit code: 0 if all holds, 1 if not, 2 for misuse."""
    parser = argparse.ArgumentParser(prog="python -m proof", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    chosen = next((word for word in argv if not word.startswith("-")), "")
    for name, (module, about) in COMMANDS.items():
        one = commands.add_parser(name, help=about, description=about)
        if name == chosen:
            found = importlib.import_module(module)
            found.add_arguments(one)
            one.set_defaults(run=found.main)
    args = parser.parse_args(argv)
    return int(args.run(args))


def _end(signum: int, _frame: object) -> None:
    """Leave every block on the way, so that what was started in it ends."""
    sys.exit(128 + signum)


if __name__ == "__main__":
    for asked in (signal.SIGTERM, signal.SIGINT):
        signal.signal(asked, _end)
    sys.exit(main(sys.argv[1:]))
