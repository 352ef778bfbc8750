"""Paths as people write them."""

from pathlib import Path

import pytest

from tenure.paths import is_file, is_folder, is_there, named

NOWHERE = ["~nobody-of-that-name/x", "/nul\0l", "/" + "x" * 5000, "/no/such/thing"]


def test_a_home_is_opened_and_an_unknown_one_stays(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert named("~/work") == tmp_path / "work"
    assert named("~nobody-of-that-name/x") == Path("~nobody-of-that-name/x")


@pytest.mark.parametrize("text", NOWHERE)
def test_what_cannot_be_is_not_there_and_nothing_fails(text):
    path = named(text)
    assert not (is_folder(path) or is_file(path) or is_there(path))


def test_what_is_there(tmp_path):
    file = tmp_path / "file"
    file.touch()
    assert is_folder(tmp_path) and is_there(tmp_path) and not is_file(tmp_path)
    assert is_file(file) and is_there(file) and not is_folder(file)
