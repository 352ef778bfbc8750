"""The history of typed lines is bounded."""

from __future__ import annotations

import stat

from prompt_toolkit.history import FileHistory

from tenure.cli.line import HISTORY_BYTES_MAX, _History, shorten


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
