"""`tenure run`: what it prints, and how its exit code says how the turn ended."""

from __future__ import annotations

import os
import pty
import signal
import sqlite3
import subprocess
from contextlib import closing, suppress

import pytest

from support.commands import TENURE, Place
from support.served import kill_quietly, pids_with, serving, wait_for

TOUCH = {"call": {"name": "shell", "arguments": {"command": "touch made.txt"}}}


def test_done_is_0_and_only_the_answer_is_on_stdout(place):
    ran = place.run("run", "--model", place.script({"text": "An **answer**."}), "say", "something")
    assert (ran.code, ran.out) == (0, "An **answer**.\n")
    assert "model scripted:" in ran.err and str(place.work) in ran.err
    rows = place.run("sessions", "list", "--json").rows()
    assert [(r["status"], r["preview"]) for r in rows] == [("closed", "say something")]


def test_json_ends_in_one_result_object(place):
    ran = place.run(
        "run", "--json", "--yes", "--model", place.script([TOUCH], {"text": "Made."}), "go"
    )
    lines = ran.lines()
    (result,) = [line["result"] for line in lines if "event" not in line]
    assert lines[-1]["result"] is result
    assert (result["state"], result["cause"], result["exit_code"], ran.code) == (
        "completed",
        "stop",
        0,
        0,
    )
    assert result["text"] == "Made." and result["session_id"]
    assert {"message.start", "tool.start", "tool.complete", "message.complete"} <= {
        line.get("event") for line in lines
    }
    assert ran.err == "" and (place.work / "made.txt").exists()


def test_the_prompt_may_come_on_stdin(place):
    ref = place.script({"text": "Read."})
    for args in (["run", "--model", ref], ["run", "--model", ref, "-"]):
        assert place.run(*args, input="from a pipe\n").out == "Read.\n"
    assert place.run("sessions", "show", "last").out.startswith("› from a pipe")
    empty = place.run("run", input="  \n")
    assert empty.code == 2 and empty.sentence == "tenure: The prompt is empty."


def test_denied_without_a_terminal_is_3_and_names_yes(place):
    ran = place.run("run", "--model", place.script([TOUCH], {"text": "I may not."}), "go")
    assert ran.code == 3 and "--yes" in ran.err and not (place.work / "made.txt").exists()
    as_json = place.run("run", "--json", "--model", place.script([TOUCH], {"text": "No."}), "go")
    assert as_json.code == as_json.lines()[-1]["result"]["exit_code"] == 3


def test_a_rule_that_denies_beats_yes(place):
    place.config("[[approvals.rules]]\ndecision = 'deny'\ntool = 'shell'\ncommand = 'touch*'\n")
    ran = place.run("run", "--yes", "--model", place.script([TOUCH], {"text": "No."}), "go")
    assert ran.code == 3 and not (place.work / "made.txt").exists()
    assert "A rule denies the command" in ran.err
    assert "with --yes" not in ran.err, "it was given, and it cannot help"
    (place.home / "config.toml").unlink()
    outside = {"call": {"name": "read", "arguments": {"path": "/etc/passwd"}}}
    ran = place.run("run", "--model", place.script(outside, {"text": "No."}), "go")
    assert ran.code == 3 and "outside" in ran.err
    assert "--yes" not in ran.err, "it would not help"


def test_failed_is_1_with_the_provider_in_its_own_words(place):
    ref = place.script([{"error": {"status": 400, "message": "that is no model of ours"}}])
    ran = place.run("run", "--model", ref, "hi")
    assert ran.code == 1 and "that is no model of ours" in ran.err
    as_json = place.run("run", "--json", "--model", ref, "hi")
    assert as_json.code == 1 and "no model of ours" in as_json.lines()[-1]["result"]["error"]


@pytest.mark.parametrize(("args", "code", "said"), [
    (["run", "--model", "nonsense:x", "hi"], 2, "nonsense"),
    (["run", "--model", "openai:gpt-5-mini", "hi"], 2, "OPENAI_API_KEY"),
    (["run", "--model", "scripted:/no/such/file", "hi"], 2, "/no/such/file"),
    (["run", "--model", "REF", "--sandbox", "nonsense", "hi"], 2, "no sandbox 'nonsense'; use one of"),
    (["run", "--model", "REF", "--sandbox", "ssh", "hi"], 2, "sandbox.ssh.host"),
    (["run", "--profile", "nope", "hi"], 2, "tenure profile create nope"),
    (["run", "--cwd", "/no/such/folder", "hi"], 2, "--cwd /no/such/folder is no folder"),
    (["run", "--cwd", "/" + "x" * 5000, "hi"], 2, "is no folder"),
    (["run", "--attach", "/" + "x" * 5000, "hi"], 2, "There is no file"),
    (["run", "--attach", "~nobody-of-that-name/x", "hi"], 2, "There is no file"),
    (["run", "--no-such-option"], 2, "--no-such-option"),
    (["run", "--session", "20200101_000000_00000000", "--model", "REF", "hi"], 2, "No session"),
    (["run", "--session", "last", "--sandbox", "local", "hi"], 2, "so --sandbox cannot count"),
    (["run", "--session", "last", "--cwd", ".", "--sandbox", "local", "hi"], 2,
     "so --cwd and --sandbox cannot count"),
    (["chat", "--session", "last", "--cwd", "."], 2, "chat needs a terminal"),
    (["run", "--connect", "foo", "hi"], 2, "no address of a gateway"),
    (["run", "--connect", "ws://[::1/api/ws", "hi"], 2, "no address of a gateway"),
    (["run", "--connect", "ws://h:port/x?token=secret-words", "hi"], 2, "no address of a gateway"),
    (["run", "--connect", "ws://127.0.0.1:1/api/ws", "hi"], 1, "No gateway answers"),
    (["frobnicate"], 2, "frobnicate"),
])  # fmt: skip
def test_what_cannot_be(place, args, code, said):
    args = [place.script({"text": "x"}) if arg == "REF" else arg for arg in args]
    ran = place.run(*args)
    assert ran.code == code, ran.err
    assert (
        said in ran.err and "secret-words" not in ran.err and len(ran.err.strip().splitlines()) <= 4
    )


def on_a_terminal(place, *args: str) -> tuple[subprocess.Popen[bytes], int]:
    """The command with a terminal of its own, in its foreground; the process and the other end."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        ["setsid", "-c", "-w", *TENURE, *args], cwd=place.work, env=place.env,
        stdin=theirs, stdout=theirs, stderr=theirs,
    )  # fmt: skip
    os.close(theirs)
    return process, ours


def read_until(fd: int, wanted: str) -> str:
    seen = b""
    while wanted.encode() not in seen:
        try:
            piece = os.read(fd, 4096)
        except OSError:
            piece = b""
        assert piece, f"{wanted!r} never came: {seen.decode()}"
        seen += piece
    return seen.decode()


def test_ctrl_c_interrupts_and_is_130(place):
    ref = place.script([{"text": "Half an "}, {"gate": "never"}])
    process, fd = on_a_terminal(place, "run", "--model", ref, "hi")
    try:
        read_until(fd, "Half an")
        os.write(fd, b"\x03")
        assert "interrupted (user)" in read_until(fd, "interrupted (user)")
        assert process.wait(30) == 130
    finally:
        process.kill()
        process.wait()
        os.close(fd)
    assert "Half an" in place.run("sessions", "show", "last").out


def test_a_signal_interrupts_too(place):
    ref = place.script([{"text": "Half an "}, {"gate": "never"}])
    process = place.popen("run", "--model", ref, "hi")
    try:
        assert process.stdout.read(7) == b"Half an"
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 130
    finally:
        process.kill()
        process.communicate()


def test_a_question_is_asked_on_the_terminal(place):
    ref = place.script([TOUCH], {"text": "Made."})
    process, fd = on_a_terminal(place, "run", "--model", ref, "hi")
    try:
        asked = read_until(fd, "> ")
        assert "touch made.txt" in asked and str(place.work) in asked
        os.write(fd, b"what?\n")
        read_until(fd, "> ")
        os.write(fd, b"1\n")
        read_until(fd, "Made.")
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.wait()
        os.close(fd)
    assert (place.work / "made.txt").exists()


def test_a_live_gateway_serves_and_a_named_one_too(place, tmp_path):
    ref = place.script({"text": "From the gateway."}, loop=True)
    with serving(place, "--model", ref) as served:
        assert place.run("run", "hi").out == "From the gateway.\n"
        from support.commands import Place

        elsewhere = Place(tmp_path / "elsewhere")
        ran = elsewhere.run("run", "--connect", served.attach_url, "hi")
        assert (ran.code, ran.out) == (0, "From the gateway.\n")
        assert served.token not in ran.err
        assert place.run("run", "--connect", served.url, "hi").out == "From the gateway.\n"
        wrong = elsewhere.run("run", "--connect", served.url + "?token=wrong", "hi")
        assert wrong.code == 2 and "refused the token" in wrong.sentence
        assert not (elsewhere.home / "tenure.db").exists()


def test_two_at_once_on_one_home(place):
    slow = place.script([{"gate": "first"}, {"text": "One."}], name="slow.json")
    fast = place.script(
        [{"text": "Two "}, {"gate": "second"}, {"text": "ended."}], name="fast.json"
    )
    first = place.popen("run", "--model", slow, "one", bufsize=0)
    try:
        wait_for((place.root / "slow.json.first.reached").exists, "the first is at work")
        second = place.popen("run", "--model", fast, "two", bufsize=0)
        try:
            assert second.stdout.read(3) == b"Two"
            (place.root / "slow.json.first.open").touch()
            assert first.stdout.read(4) == b"One."
            # The first is done, and stays for the turn that the second has running in it.
            (place.root / "fast.json.second.open").touch()
            assert second.communicate(timeout=30)[0] == b" ended.\n" and second.returncode == 0
            assert first.wait(30) == 0
        finally:
            second.kill()
            second.communicate()
    finally:
        first.kill()
        first.communicate()
    states = {(r["preview"], r["status"]) for r in place.run("sessions", "list", "--json").rows()}
    assert states == {("one", "closed"), ("two", "closed")}


def test_a_session_that_goes_on_can_change_its_model(place):
    one = place.script({"text": "from one"}, name="one.json")
    two = place.script({"text": "from two"}, name="two.json")
    first = place.run("run", "--json", "--model", one, "hi")
    session = first.lines()[-1]["result"]["session_id"]
    again = place.run("run", "--json", "--session", session, "--model", two, "hi")
    assert again.lines()[-1]["result"]["text"] == "from two"
    kept = place.run("run", "--session", session, "hi")
    assert two in kept.err


def test_a_run_that_cannot_begin_still_ends_in_a_result_object(place):
    failed = place.run("run", "--json", "--model", "nope:x", "hi")
    assert failed.code in {1, 2}
    result = failed.lines()[-1]["result"]
    assert (result["state"], result["exit_code"]) == ("failed", failed.code)
    assert "nope" in result["error"]


def test_a_run_that_was_killed_goes_on_first_and_the_next_shows_its_own_answer_alone(place):
    ref = place.script([{"text": "half "}, {"gate": "never"}])
    process = place.popen("run", "--model", ref, "first request")
    wait_for(lambda: turns(place) == [("first request", "running")], "its prompt is stored")
    for pid in pids_with(str(place.home)):
        kill_quietly(pid)
    process.communicate()
    place.script([{"gate": "one"}, {"text": "answer one"}], {"text": "answer two"})
    process = place.popen("run", "--session", "last", "second request")
    said = b""
    while piece := process.stderr.readline():
        said += piece
        if b"another turn of this session runs first" in piece:
            (place.root / "script.json.one.open").touch()
    out, _ = process.communicate(timeout=30)
    assert (process.returncode, out) == (0, b"answer two\n"), said
    assert [state for _, state in turns(place)] == ["interrupted", "completed", "completed"]


def turns(place: Place) -> list[tuple[str, str]]:
    uri = f"file:{place.home / 'tenure.db'}?mode=ro"
    with suppress(sqlite3.OperationalError), closing(sqlite3.connect(uri, uri=True)) as db:
        return db.execute("SELECT prompt, state FROM turns ORDER BY ordinal, attempts").fetchall()
    return []
