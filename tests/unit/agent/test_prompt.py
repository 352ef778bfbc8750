"""What every request begins with stays small and the same."""

import os
from pathlib import Path

import msgspec
import pytest

from tenure.agent import instructions
from tenure.agent.instructions import (
    LEVELS_MAX,
    Instruction,
    look,
    project_of,
    read_instructions,
    upward,
)
from tenure.agent.prompt import TITLE_CHARS_MAX, system_text, title_of
from tenure.config import LimitsConfig
from tenure.tools.registry import default_tools, small_tools


def tokens(text):
    """A pessimistic count: 3.3 characters to a token."""
    return len(text) / 3.3


def weight(system, tools):
    return tokens(system + "".join(msgspec.json.encode(tool.spec).decode() for tool in tools))


def text(**changed):
    facts = {
        "small": False,
        "cwd": "/home/user/project",
        "system": "Linux x86_64",
        "date": "2026-01-31",
    }
    return system_text(**(facts | changed))


def test_the_full_prefix_stays_far_below_4000_tokens():
    assert weight(text(), default_tools(LimitsConfig())) < 2_000


def test_the_small_prefix_stays_below_400_tokens():
    tools = small_tools(LimitsConfig())
    assert [tool.name for tool in tools] == ["shell", "read", "write", "list"]
    assert weight(text(small=True), tools) < 400


def test_instructions_stand_at_the_end_and_not_in_the_small_text(tmp_path):
    given = (Instruction(tmp_path / "AGENTS.md", "Use tabs."),)
    assert text(instructions=given).endswith(
        f'<instructions from="{tmp_path}/AGENTS.md">\nUse tabs.\n</instructions>'
    )
    assert "tabs" not in text(small=True, instructions=given)


@pytest.fixture
def tree(tmp_path):
    inner = tmp_path / "home" / "repo" / "pkg"
    inner.mkdir(parents=True)
    for folder in (tmp_path, tmp_path / "home", tmp_path / "home" / "repo", inner):
        (folder / "AGENTS.md").write_text(f"rules of {folder.name}\n")
    return tmp_path


def used(tree, cwd):
    return [item.path.parent.name for item in read_instructions(tree / cwd, tree / "home")]


def test_files_are_found_upward_to_the_home_directory(tree):
    assert used(tree, "home/repo/pkg") == ["home", "repo", "pkg"]
    assert read_instructions(tree / "home/repo", tree / "home")[0].text == "rules of home"


def test_the_root_of_a_repository_is_the_last_stop(tree):
    (tree / "home" / "repo" / ".git").mkdir()
    assert used(tree, "home/repo/pkg") == ["repo", "pkg"]


def test_what_is_no_readable_file_is_left_out(tree):
    file = tree / "home" / "repo" / "AGENTS.md"
    file.unlink()
    os.mkfifo(file)
    (tree / "home" / "AGENTS.md").unlink()
    (tree / "home" / "AGENTS.md").mkdir()
    assert used(tree, "home/repo/pkg") == ["pkg"]


def test_neither_a_pipe_nor_a_device_holds_it_up(tree, monkeypatch):
    opened, fds = os.open, []

    def open_(path, flags):
        assert flags & os.O_NONBLOCK, "a pipe that nobody writes to would be waited for"
        fds.append(opened(path, flags))
        return fds[-1]

    monkeypatch.setattr(os, "open", open_)
    file = tree / "home" / "repo" / "AGENTS.md"
    file.unlink()
    file.symlink_to("/dev/zero")
    assert used(tree, "home/repo/pkg") == ["home", "pkg"]
    for fd in fds:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(fd)


def test_a_file_is_cut(tree, monkeypatch):
    monkeypatch.setattr(instructions, "FILE_BYTES_MAX", 5)
    found = read_instructions(tree / "home/repo/pkg", tree / "home")
    assert [item.text for item in found] == ["rules"] * 3


def test_the_way_up_has_an_end():
    deep = Path("/nowhere", *map(str, range(40)))
    assert len(list(upward(deep, Path("/home")))) == LEVELS_MAX


def test_what_was_seen_tells_any_change(tree):
    folders = [tree, tree / "home"]
    before = look(folders)
    assert look(folders) == before and None not in before
    (tree / "home/AGENTS.md").unlink()
    assert look(folders) == (before[0], None)
    (tree / "home/AGENTS.md").write_text("other rules")
    os.utime(tree / "home/AGENTS.md", ns=(0, before[1][0]))
    assert look(folders) != before, "whatever the clock says"


def test_the_innermost_win_when_all_are_too_large(tree, monkeypatch):
    monkeypatch.setattr(instructions, "TOTAL_BYTES_MAX", 20)
    found = read_instructions(tree / "home/repo/pkg", tree / "home")
    assert [item.text for item in found] == ["rules o", "rules of pkg"] or found[
        -1
    ].text == "rules of pkg"
    assert sum(len(item.text) for item in found) <= 20


@pytest.mark.parametrize(
    ("prompt", "title"),
    [
        ("fix the bug", "fix the bug"),
        ("\n\n  ## Fix `the` **bug**\nmore", "Fix the bug"),
        ("---\nhello", "hello"),
        ("", "Untitled"),
        ("\n ``` \n", "Untitled"),
        ("x" * 100, "x" * (TITLE_CHARS_MAX - 1) + "…"),
        ("word " * 30, "word word word word word word word word word word word…"),
        ("schöne Grüße 你好", "schöne Grüße 你好"),
    ],
)
def test_a_title_is_the_first_line_that_says_something(prompt, title):
    assert title_of(prompt) == title
    assert len(title) <= TITLE_CHARS_MAX


def test_a_project_is_the_folder_and_the_root_of_its_repository(tmp_path):
    home, repo = tmp_path / "home", tmp_path / "home" / "repo"
    inner = repo / "a" / "b"
    inner.mkdir(parents=True)

    def project(cwd):
        return project_of(tuple(upward(cwd, home)), home)

    assert project(inner) == (inner,), "whose way up ends at home"
    (repo / ".git").mkdir()
    assert project(inner) == (inner, repo) and project(repo) == (repo,)
    (home / ".git").mkdir()
    assert project(home) == (home,)
    assert project_of((), home) == ()
    root = Path("/")
    assert project_of((root / "srv", root), home) == (root / "srv",), "the root is no project"
