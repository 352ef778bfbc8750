"""What `tenure run` makes of its arguments and of stdin."""

from __future__ import annotations

import os
import pty

import pytest

from support.commands import PATIENCE_S
from tenure.cli.piped import prompt_from
from tenure.errors import BadValue, ConfigError
from tenure.protocol.messages import PROMPT_BYTES_MAX


@pytest.fixture
def pipe():
    ends = os.pipe()
    yield ends
    for end in ends:
        try:
            os.close(end)
        except OSError:
            continue


def given(path, content: bytes) -> int:
    path.write_bytes(content)
    return os.open(path, os.O_RDONLY)


def test_what_is_piped_follows_the_prompt(pipe):
    ours, theirs = pipe
    os.write(theirs, b"+ a line\n\xff")
    os.close(theirs)
    assert (
        prompt_from(["review", "this"], ours)
        == "review this\n\n+ a line\n\N{REPLACEMENT CHARACTER}"
    )


def test_without_a_prompt_it_is_the_prompt(tmp_path):
    for words in ([], ["-"]):
        stdin = given(tmp_path / "in", b"from a file\n")
        assert prompt_from(words, stdin) == "from a file\n"
        os.close(stdin)


def test_a_pipe_into_which_nobody_writes_is_left_alone(pipe, capsys):
    assert prompt_from(["go"], pipe[0], silent_s=0) == "go"
    assert "silent" in capsys.readouterr().err


def test_a_first_byte_is_enough_to_wait_for_the_rest(pipe):
    ours, theirs = pipe
    os.write(theirs, b"begins ")
    child = os.fork()
    if not child:
        os.close(ours)
        os.write(theirs, b"and ends")
        os._exit(0)
    os.close(theirs)
    try:
        assert prompt_from(["go"], ours, silent_s=0) == "go\n\nbegins and ends"
    finally:
        os.waitpid(child, 0)


def test_a_dash_waits_as_long_as_it_takes(pipe):
    ours, theirs = pipe
    child = os.fork()
    if not child:
        os.close(ours)
        os.write(theirs, b"late")
        os._exit(0)
    os.close(theirs)
    try:
        assert prompt_from(["go", "-"], ours, silent_s=0) == "go\n\nlate"
    finally:
        os.waitpid(child, 0)


def test_nothing_and_what_cannot_be_read_are_no_input(pipe):
    null = os.open(os.devnull, os.O_RDONLY)
    assert prompt_from(["go"], null) == "go"
    os.close(null)
    unreadable = os.open(os.devnull, os.O_WRONLY)
    assert prompt_from(["go"], unreadable) == "go"
    with pytest.raises(OSError, match="Bad file"):
        prompt_from(["-"], unreadable)
    os.close(unreadable)


def test_over_the_limit_it_is_refused_and_not_read_on(tmp_path):
    stdin = given(tmp_path / "in", b"x" * (PROMPT_BYTES_MAX + 100))
    with pytest.raises(BadValue, match="4 MiB"):
        prompt_from(["go"], stdin)
    assert os.lseek(stdin, 0, os.SEEK_CUR) == PROMPT_BYTES_MAX + 1
    os.close(stdin)
    just_over = given(tmp_path / "in", b"x" * (PROMPT_BYTES_MAX - 3))
    with pytest.raises(BadValue, match="4 MiB"):
        prompt_from(["go"], just_over)
    os.close(just_over)


def test_a_terminal_is_not_read():
    ours, theirs = pty.openpty()
    try:
        assert prompt_from(["go"], theirs) == "go"
        with pytest.raises(ConfigError, match="pipe one in"):
            prompt_from([], theirs)
    finally:
        os.close(ours)
        os.close(theirs)


def test_the_command_does_not_hang_on_a_held_open_pipe(place):
    process = place.popen(
        "run", "--model", place.script({"text": "Answer."}), "go", stdin=-1
    )  # a pipe that stays open
    try:
        assert process.stdout.read(8) == b"Answer.\n"
        assert process.wait(PATIENCE_S) == 0
    finally:
        process.kill()
        process.communicate()


def test_the_command_takes_a_diff(place):
    ran = place.run("run", "--model", place.script({"text": "Fine."}), "review", input="+ a line\n")
    assert ran.out == "Fine.\n"
    assert place.run("sessions", "show", "last").out.startswith("› review\n\n+ a line\n")
