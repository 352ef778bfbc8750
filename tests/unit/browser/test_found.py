"""Whether there is a browser."""

import importlib.util

import pytest

from tenure.browser.found import find_browser
from tenure.browser.lending import sweep_folders, temporary_folder
from tenure.settings import BrowserConfig


@pytest.fixture
def program(tmp_path):
    def make(name, mode=0o755):
        file = tmp_path / name
        file.write_text("#!/bin/sh\n")
        file.chmod(mode)
        return str(file)

    return make


def test_the_first_that_is_on_the_path(program, tmp_path):
    environ = {"PATH": str(tmp_path)}
    assert (
        find_browser(BrowserConfig(), environ).mend
        == "apt-get install chromium-headless-shell (or chromium)"
    )
    chrome = program("google-chrome")
    assert find_browser(BrowserConfig(), environ).executable == chrome
    chromium = program("chromium")
    assert find_browser(BrowserConfig(), environ).executable == chromium
    shell = program("chromium-headless-shell")
    assert find_browser(BrowserConfig(), environ).executable == shell, "half the memory"


def test_the_configured_one(program, tmp_path):
    mine = program("mine")
    assert find_browser(BrowserConfig(executable=mine), {"PATH": ""}).executable == mine
    dead = program("dead", 0o644)
    assert "cannot be executed" in find_browser(BrowserConfig(executable=dead), {}).missing


def test_what_is_missing_is_told(monkeypatch, program, tmp_path):
    program("chromium")
    assert "switched off" in find_browser(BrowserConfig(enabled=False), {}).missing
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    found = find_browser(BrowserConfig(), {"PATH": str(tmp_path)})
    assert (found.executable, found.mend) == ("", "pip install 'tenure[browser]'")


def test_a_folder_whose_sockets_would_have_too_long_names_is_not_used():
    assert str(temporary_folder({"TMPDIR": "/var/tmp"})) == "/var/tmp"
    assert str(temporary_folder({"TMPDIR": "/x" * 40})) == "/tmp"
    assert str(temporary_folder({})) == "/tmp"


def test_the_sweep_takes_what_earlier_gateways_of_this_home_have_left(tmp_path):
    for name in (
        "tenure-browser-aaaaaaa-00000001-x", "tenure-browser-aaaaaaa-00000002-y",
        "tenure-browser-bbbbbbb-00000001-z", "other",
    ):  # fmt: skip
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text("x")
    (tmp_path / "tenure-browser-aaaaaaa-00000003-l").symlink_to(tmp_path / "other")
    assert sweep_folders(tmp_path, "aaaaaaa-00000002") == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "other", "tenure-browser-aaaaaaa-00000002-y", "tenure-browser-aaaaaaa-00000003-l",
        "tenure-browser-bbbbbbb-00000001-z",
    ]  # fmt: skip
    assert (tmp_path / "other" / "file").exists()
