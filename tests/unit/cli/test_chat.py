"""`tenure chat` on a screen."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess

import pytest

from support.commands import TENURE
from support.pictures import png
from support.served import serving
from support.terminal import terminal


def chat(place, *args):
    return terminal([*TENURE, "chat", *args], env=place.env, cwd=place.work, size=(100, 35))


def test_a_conversation(place):
    (place.work / "notes.md").touch()
    ref = place.script(
        {"text": "# A title\n\nSome **bold** words.\n\n- one\n- two\n"},
        {"text": "Three lines, I see."},
        [{"text": "Slowly, "}, {"gate": "never"}],
        [{"call": {"name": "shell", "arguments": {"command": "touch made.txt"}}}],
        {"text": "It is made."},
    )
    with chat(place, "--model", ref) as term:
        term.wait("a gateway of its own", "Ctrl-D leaves")
        term.enter("hello")
        screen = term.wait("A title", "Some bold words.", "• one", "• two", "idle")
        assert "**" not in screen, "Markdown is shown, not its marks"
        term.paste("first line\nsecond line\nthird line")
        term.wait("third line")
        term.key("Enter")
        term.wait("Three lines, I see.", "idle")
        term.enter("take your time")
        term.wait("working", "Ctrl-C interrupts")
        term.key("C-c")
        term.wait("Slowly,", "interrupted \\(user\\)", "idle")
        term.enter("make it")
        term.wait("touch made.txt", "answer: 1 once")
        term.enter("1")
        term.wait("It is made.", "idle")
        assert (place.work / "made.txt").exists()
        term.type("/sta")
        term.key("Tab")
        term.wait("/status")
        term.key("Enter")
        term.wait("approvals ask")
        term.type("look at not")
        term.key("Tab")
        term.wait("look at notes.md")
        term.key("C-c")
        term.wait("idle")
        term.key("C-d")
        assert term.wait_dead() == 0
    shown = place.run("sessions", "show", "last")
    assert "› first line\nsecond line\nthird line" in shown.out
    assert "It is made." in shown.out
    assert " error " not in place.run("logs").out, "leaving is no error"


def test_an_earlier_session_goes_on(place):
    place.run("run", "--model", place.script({"text": "The word is zebra."}), "a word please")
    (row,) = place.run("sessions", "list", "--json").rows()
    ref = place.script({"text": "Zebra, still."})
    with chat(place, "--session", row["id"], "--model", ref) as term:
        term.wait("a word please", "The word is zebra.", "idle")
        term.enter("/quit")
        assert term.wait_dead() == 0


def test_an_earlier_session_shows_its_tool_calls(place):
    call = {"name": "write", "arguments": {"path": "a.txt", "content": "hi"}}
    ref = place.script([{"text": "I write."}, {"call": call}], {"text": "Written."})
    place.run("run", "--yes", "--model", ref, "write")
    with chat(place, "--session", "last", "--model", ref) as term:
        term.wait("I write.", "• write", "Created a.txt", "Written.", "idle")
        term.key("C-d")
        assert term.wait_dead() == 0


def test_leaving_while_another_works_says_that_it_waits(place):
    ref = place.script([{"text": "Slowly, "}, {"gate": "never"}])
    with chat(place, "--model", ref) as first:
        first.wait("a gateway of its own", "idle")
        with chat(place, "--model", ref) as second:
            second.wait("the gateway at", "idle")
            second.enter("take your time")
            second.wait("working")
            first.key("C-d")
            first.wait("Other clients have turns running here")
            second.key("C-c")
            assert first.wait_dead() == 0
            second.wait("attaching again", "a gateway of its own", "idle")
            second.enter("/status")
            second.wait("approvals ask")
            second.key("C-d")
            assert second.wait_dead() == 0


def test_what_is_typed_before_the_gateway_is_open_is_not_lost(place):
    ref = place.script({"text": "Early answer."})
    with chat(place, "--model", ref) as term:
        term.wait("› ", "opening")
        term.enter("early question")
        term.wait("Early answer.", "idle")
        term.key("C-d")
        assert term.wait_dead() == 0


def test_it_needs_a_terminal(place):
    ran = place.run("chat")
    assert ran.code == 2 and "use `tenure run` in scripts" in ran.sentence


def test_files_are_attached_shown_and_taken_off(place):
    (place.work / "shot.png").write_bytes(png())
    (place.work / "note.txt").write_text("a text")
    seen = [{"match": "shot.png (image", "step": {"text": "I see it."}}]
    with chat(place, "--model", place.script({"text": "Nothing."}, on=seen)) as term:
        term.wait("a gateway of its own", "Ctrl-D leaves")
        term.type("/attach sho")
        term.key("Tab")
        term.wait("/attach shot.png")
        term.key("Enter")
        term.wait(r"attached: shot.png \(image, 40 x 30 pixels\)", "1 attached")
        term.enter("/attach note.txt")
        term.wait("2 attached")
        term.enter("/detach note.txt")
        term.wait("taken off: note.txt", "goes with the next prompt", "1 attached")
        term.enter("what is it")
        term.wait("I see it.", "idle", absent="1 attached")
        term.key("C-d")
        assert term.wait_dead() == 0
    assert "  with shot.png" in place.run("sessions", "show", "last").out


@pytest.mark.parametrize("how", ["the terminal hangs up", "it is told to end"])
def test_it_ends_in_order_from_outside(place, how):
    ref = place.script({"text": "One."}, [{"deltas": ["Slowly,\n\n"]}, {"gate": "never"}])
    with chat(place, "--model", ref) as term:
        term.wait("a gateway of its own", "idle")
        term.enter("hello")
        term.wait("One.", "idle")
        term.enter("take your time")
        term.wait("Slowly,", "working")
        if how == "it is told to end":
            term.tmux("run-shell", "kill -TERM #{pane_pid}")
            assert term.wait_dead() == 128 + signal.SIGTERM
    logged = place.run("logs").out  # the terminal has gone, and all that ran in it
    assert "Ending: the command ended" in logged and " error " not in logged
    (place.root / "script.json.never.open").touch()
    with serving(place), chat(place, "--session", "last") as term:
        term.wait("› take your time", "The interrupted turn goes on", "idle")


def test_nohup_counts(place):
    ref = place.script([{"gate": "first"}, {"text": "Done."}])
    argv = shlex.join([*TENURE, "run", "--model", ref, "go"])
    running = subprocess.Popen(
        ["sh", "-c", f"trap '' HUP; exec {argv}"], env=place.env, cwd=place.work,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    while place.run("ps").code:
        assert running.poll() is None
    os.killpg(running.pid, signal.SIGHUP)
    (place.root / "script.json.first.open").touch()
    out, _ = running.communicate(timeout=30)
    assert out == "Done.\n" and running.returncode == 0


def test_ctrl_z_suspends_it_and_fg_brings_it_back(place):
    ref = place.script({"text": "Here again."})
    shell = {**place.env, "PS1": "shell: "}
    with terminal(["bash", "--norc", "-i"], env=shell, cwd=place.work, size=(200, 35)) as term:
        term.wait("shell:")
        term.enter(shlex.join([*TENURE, "chat", "--model", ref]))
        term.wait("a gateway of its own", "idle")
        term.type("half a line")
        term.wait("› half a line")
        term.key("C-z")
        term.wait("Stopped")
        term.enter("fg")
        term.wait("› half a line", "idle")
        term.key("Enter")
        term.wait("Here again.", "idle")
        term.key("C-d")
        term.wait("shell: $")
        term.enter("exit")
        assert term.wait_dead() == 0


def test_a_paragraph_is_seen_while_it_comes_and_printed_once(place):
    ref = place.script([{"deltas": ["A **slow** answer "]}, {"gate": "more"}, {"text": "ends."}])
    with chat(place, "--model", ref) as term:
        term.wait("idle")
        term.enter("begin")
        term.wait(r"A \*\*slow\*\* answer › .*working")
        term.type("typed meanwhile")
        term.wait(r"A \*\*slow\*\* answer › typed meanwhile")
        (place.root / "script.json.more.open").touch()
        screen = term.wait("A slow answer ends. › typed meanwhile idle")
        assert screen.count("slow") == 1 and "**" not in screen
        term.key("C-c", "C-d")
        term.wait(r"tenure chat --session \w+ goes on with this")
        assert term.wait_dead() == 0
