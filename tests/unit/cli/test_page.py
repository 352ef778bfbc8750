"""The page of `tenure --help` is made ahead; it must say what the commands say."""

from __future__ import annotations

import subprocess
import sys
from importlib.resources import files

import pytest
import typer

from tenure.cli import page
from tenure.cli.commands import app

_SHOW = "import sys; sys.argv = ['tenure', '--help']; from tenure.cli.main import main; main()"
_AND_TELL = f"try:\n    {_SHOW}\nfinally:\n    print('typer' in sys.modules)"


def _shown(columns: int) -> tuple[str, str]:
    """The page, and whether the command library was imported for it."""
    done = subprocess.run(
        [sys.executable, "-c", _AND_TELL],
        capture_output=True,
        text=True,
        env={"COLUMNS": str(columns)},
        check=True,
    )
    text, _, imported = done.stdout.rstrip("\n").rpartition("\n")
    return text + "\n", imported


def test_it_is_what_the_commands_say():
    stored = files("tenure.cli").joinpath("help.txt").read_text(encoding="utf-8")
    assert stored == page.made(), "run: python -m tenure.cli.page"


@pytest.mark.parametrize("columns", [80, 200])
def test_it_is_shown_without_importing_the_commands(columns):
    assert _shown(columns) == (page.made(), "False")


def test_a_narrow_terminal_gets_one_of_its_width():
    text, imported = _shown(50)
    assert imported == "True"
    assert max(map(len, text.splitlines())) <= 50
    assert "tenure [OPTIONS]" in text


def test_no_line_of_a_list_of_commands_is_cut_off():
    top = typer.main.get_command(app)
    groups = {"tenure": top} | {n: c for n, c in top.commands.items() if hasattr(c, "commands")}
    assert len(groups) > 10
    for name, group in groups.items():
        context = group.make_context(name, [], resilient_parsing=True, terminal_width=page.COLUMNS)
        _, _, listed = group.get_help(context).partition("Commands:")
        assert "..." not in listed, f"the first sentence of a command of {name} is too long"


@pytest.mark.parametrize("asked", ["--help", "--version"])
def test_a_full_disk_is_told_in_a_sentence(asked):
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-c", _SHOW.replace("--help", asked)],
            stdout=full, stderr=subprocess.PIPE, text=True, check=False, env={},
        )  # fmt: skip
    assert (done.returncode, done.stderr) == (1, "tenure: No space left on device.\n")
