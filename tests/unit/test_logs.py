"""Logs: private files, no secrets, one JSON object a line."""

from __future__ import annotations

import json
import logging
import os

import pytest

from tenure.logs import Redactor, close_log, open_log

LETTERS = "a1b2c3d4" * 4
SECRETS = [
    f"Bearer {LETTERS}", f"?token={LETTERS}", f"sk-{LETTERS}", f"api_key: {LETTERS}",
    f"Authorization: {LETTERS}", f"gsk_{LETTERS}",
]  # fmt: skip


@pytest.mark.parametrize("text", SECRETS)
def test_what_looks_like_a_credential_is_blanked(text):
    shown = Redactor()(f"before {text} after")
    assert LETTERS not in shown
    assert shown.startswith("before ") and shown.endswith(" after")


def test_known_secrets_are_blanked_wherever_they_stand():
    redact = Redactor(["a-secret-of-ours"])
    redact.know("another-secret")
    assert redact("x a-secret-of-ours y another-secret z") == "x *** y *** z"
    redact.know("short")
    assert redact("short words stay") == "short words stay"


def test_the_file_is_private_and_its_lines_are_redacted(tmp_path):
    handler = open_log(tmp_path / "logs", "info", Redactor(["canary-secret"]))
    try:
        logging.getLogger("tenure.test").info("with canary-secret in it")
        try:
            raise ValueError("canary-secret in an exception")
        except ValueError:
            logging.getLogger("tenure.test").exception("failed")
    finally:
        close_log(handler)
    file = tmp_path / "logs" / "gateway.log"
    assert file.stat().st_mode & 0o777 == 0o600
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert [line["message"] for line in lines] == ["with *** in it", "failed"]
    assert "*** in an exception" in lines[1]["traceback"]
    assert "canary-secret" not in file.read_text()


def test_what_libraries_log_is_not_kept(tmp_path):
    """They log what passes through them: answers of tool servers, names of hosts."""
    handler = open_log(tmp_path, "debug", Redactor())
    try:
        for name in ("mcp.client", "asyncssh", "httpx", "urllib3"):
            logging.getLogger(name).warning("somebody's data")
        logging.getLogger("tenure.test").debug("ours")
        logging.getLogger("asyncio").error("a task's")
    finally:
        close_log(handler)
    text = (tmp_path / "gateway.log").read_text()
    assert "ours" in text and "a task's" in text and "somebody" not in text


def test_a_full_disk_is_said_once_and_without_what_was_to_be_logged(tmp_path, capsys):
    (tmp_path / "gateway.log").symlink_to("/dev/full")
    handler = open_log(tmp_path, "info", Redactor(["canary-secret"]))
    handler.stream = handler._open()
    fd = handler.stream.fileno()
    for _ in range(3):
        logging.getLogger("tenure.test").info("said %s", "canary-secret")
    close_log(handler)
    with pytest.raises(OSError):
        os.fstat(fd)
    (line,) = capsys.readouterr().err.splitlines()
    assert "No space left" in line and "tenure.test" in line
    assert "canary-secret" not in line


class Gone:
    """A stderr that nobody reads any more."""

    def write(self, _text):
        raise BrokenPipeError


def test_without_a_stderr_what_cannot_be_written_is_not_said(tmp_path, monkeypatch):
    handler = open_log(tmp_path, "info", Redactor())
    with monkeypatch.context() as nobody:
        nobody.setattr("sys.stderr", Gone())
        told = {"name": "tenure.test", "msg": "%d of them", "args": ("no number",)}
        handler.handle(logging.makeLogRecord(told))
    close_log(handler)
