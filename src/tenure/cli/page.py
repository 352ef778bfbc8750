"""The page of ``tenure --help``, made ahead, so that showing it imports nothing.

``python -m tenure.cli.page`` makes it anew; a test compares it with the commands.
"""

from __future__ import annotations

import os
import sys

_PAGE = os.path.join(os.path.dirname(__file__), "help.txt")  # noqa: PTH118, PTH120 - 8 ms earlier
COLUMNS = 80
"""What the page was laid out for; on a narrower terminal it is laid out afresh."""


def show() -> bool:
    """Print the page; whether it fits the terminal."""
    try:
        asked = os.environ.get("COLUMNS")  # noqa: TID251 - config would have to be imported
        columns = int(asked or os.get_terminal_size(1).columns)
    except (OSError, ValueError):
        columns = COLUMNS
    if columns < COLUMNS:
        return False
    with open(_PAGE, encoding="utf-8") as page:  # noqa: PTH123 - 8 ms earlier
        sys.stdout.write(page.read())
    return True


def made() -> str:
    """The page as the commands are now."""
    import typer

    from tenure.cli.commands import app

    command = typer.main.get_command(app)
    context = command.make_context("tenure", [], resilient_parsing=True, terminal_width=COLUMNS)
    return command.get_help(context) + "\n"


if __name__ == "__main__":
    with open(_PAGE, "w", encoding="utf-8") as out:  # noqa: PTH123
        out.write(made())
