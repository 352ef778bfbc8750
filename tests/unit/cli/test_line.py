"""The history of typed lines is bounded; what is being said stands above the line."""

from __future__ import annotations

import stat

import pytest
from prompt_toolkit.history import FileHistory

from tenure.cli.line import HISTORY_BYTES_MAX, _History, ends, shorten


def test_over_its_limit_the_older_half_goes_and_entries_stay_whole(tmp_path):
    path = tmp_path / "chat_history"
    history = FileHistory(str(path))
    history.store_string("first")
    shorten(path)
    assert list(FileHistory(str(path)).load_history_strings()) == ["first"]
    for n in range(40):
        history.store_string(f"{n} " + "x" * 40_000)
    shorten(path)
    assert path.stat().st_size <= HISTORY_BYTES_MAX // 2
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    kept = list(FileHistory(str(path)).load_history_strings())
    assert kept[0].startswith("39 ") and all(len(line) > 40_000 for line in kept)
    assert 10 <= len(kept) <= 13


def test_what_is_typed_unseen_is_not_remembered(tmp_path):
    hidden = False
    history = _History(str(tmp_path / "chat_history"), lambda: hidden)
    history.append_string("seen")
    hidden = True
    history.append_string("a secret")
    assert "a secret" not in (tmp_path / "chat_history").read_text()
    assert list(history.load_history_strings()) == ["seen"]
    assert "a secret" not in history.get_strings()


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("", []),
        ("short", ["short"]),
        ("words that wrap here", ["words that", "wrap here"]),
        ("averylongwordthatcannotwrap", ["ordthatcan", "notwrap"]),
        ("one\ntwo\nthree\n", ["two", "three"]),
        ("日本語のテキスト", ["日本語のテ", "キスト"]),
    ],
)
def test_the_end_of_what_is_being_said_is_wrapped_to_the_width(text, rows):
    assert ends(text, 10, 2) == rows


def test_a_very_low_terminal_has_no_room_for_it():
    assert ends("something is said", 10, 0) == []
