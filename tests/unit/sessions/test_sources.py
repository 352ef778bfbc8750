"""What is opened is what was judged, and nothing holds its reading up."""

from __future__ import annotations

import os

import pytest

from tenure.agent.ports import Policy
from tenure.errors import BadValue
from tenure.sessions import sources
from tenure.sessions.sources import _Named, _read, _whole, spellings


def named(tmp_path, path):
    (tmp_path / "work").mkdir()
    return _Named(path, tmp_path / "work", False, (), Policy(), (tmp_path / "keys",))


def test_a_link_that_comes_between_is_not_followed(tmp_path, monkeypatch):
    (tmp_path / "keys").mkdir()
    (tmp_path / "keys" / "id").write_text("key")
    file = tmp_path / "note.txt"
    file.write_text("a note")
    wanted = named(tmp_path, file)
    assert _read(wanted, near=True).content == b"a note"
    judge = sources._check_outside

    def judge_then_swap(*args, **kwargs):
        judge(*args, **kwargs)
        file.unlink()
        file.symlink_to("keys/id")

    monkeypatch.setattr(sources, "_check_outside", judge_then_swap)
    with pytest.raises(BadValue, match="cannot be opened"):
        _read(wanted, near=True)


def test_a_text_that_can_be_no_path_is_not_looked_for():
    assert spellings("/a b/c") == [("/a b/c", ""), ("/a", "b/c")]
    for text in ("", " \n", "/a\n/b", "/a\0", "/" + "x" * 8_192):
        assert spellings(text) == []


def test_a_folder_that_is_refused_is_closed(tmp_path):
    fd = os.open(tmp_path, os.O_RDONLY)
    with pytest.raises(BadValue, match="is a folder"):
        _whole(fd, "it")
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(fd)


def test_a_pipe_is_not_waited_for(tmp_path, monkeypatch):
    opened = os.open

    def open_(path, flags, *more, **named):
        assert flags & os.O_NONBLOCK, "nobody writes to it"
        return opened(path, flags, *more, **named)

    os.mkfifo(tmp_path / "pipe")
    wanted = named(tmp_path, tmp_path / "pipe")
    monkeypatch.setattr(os, "open", open_)
    with pytest.raises(BadValue, match="no regular file"):
        _read(wanted, near=True)
