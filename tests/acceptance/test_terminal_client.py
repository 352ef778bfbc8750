"""A widely used terminal client, unmodified, against `tenure serve`: everything a person does in it."""

from __future__ import annotations

import re

import pytest

from support.models import ONE_THREAD, SMOLLM2, smollm2_cache
from support.served import pids_with, serving

SESSION = re.compile(r"\d{8}_\d{6}_[0-9a-f]{8}")


def sessions_of(place) -> list[str]:
    out = place.run("sessions", "list").out
    return [SESSION.match(line).group() for line in out.splitlines()]


def test_start_prompt_tool_approval_interrupt_commands_new_and_quit(place, client):
    (place.work / "a.txt").write_text("a")
    (place.work / "b.txt").write_text("b")
    ref = place.script(
        {"text": "Hello **there**, friend."},
        [
            {"text": "I will look. "},
            {"call": {"name": "shell", "arguments": {"command": "touch c.txt && ls | wc -l"}}},
        ],
        {"text": "There are three."},
        [{"call": {"name": "shell", "arguments": {"command": "touch d.txt"}}}],
        {"text": "Then I leave it."},
        [{"text": "Slowly "}, {"gate": "never"}],
        {"text": "After the interrupt."},
    )
    other = place.script({"text": "Another model speaks."}, name="other.json")
    with serving(place, "--model", ref) as served, client(served) as term:
        term.wait("Tenure v", r"\d+ tools", r"ready │ script.json │ 0/128k")
        session = SESSION.search(term.screen()).group()

        term.enter("hi")
        term.wait("Hello there, friend.", r"\d+/128k", absent=" 0/128k")

        term.enter("count the files")
        asked = term.wait("approval required", "Allow once", "Always allow", "Deny")
        assert "touch c.txt && ls | wc -l" in asked
        assert not (place.work / "c.txt").exists()
        term.key("Enter")
        term.wait("There are three.", r"Result: .{0,8}3", absent="approval required")
        assert (place.work / "c.txt").exists()

        term.enter("one more")
        term.wait("approval required", "touch d.txt")
        term.key("4")
        term.wait("Then I leave it.", absent="approval required")
        assert not (place.work / "d.txt").exists()

        term.enter("something slow")
        term.wait("Slowly", "Ctrl\\+C to interrupt")
        term.key("C-c")
        term.wait(r"\[interrupted\]", "ready │")
        term.enter("and now")
        term.wait("After the interrupt.", "ready │")

        term.enter("/status")
        term.wait("Status", f"session {session}", r"directory .*/work", "approvals ask")
        term.key("q")
        term.wait("ready │", absent="directory ")
        term.enter("/usage")
        term.wait("API calls 7", r"Context: \d+ / 128,000")
        term.enter("/title A walk in the woods")
        term.wait("session title set: A walk in the woods")
        term.enter("/tools")
        term.wait("Run a bash command", "Long-running commands")
        term.key("q")
        term.wait("ready │", absent="Run a bash command")
        term.enter("/stop")
        term.wait("stopped 0 background processes")
        term.enter("/help")
        term.wait("/rollback", "leave; the session stays", "Hotkeys")  # the end of a long page

        term.enter(f"/model {other}")
        term.wait("ready │ other.json")
        term.enter("who speaks")
        term.wait("Another model speaks.")

        term.enter("/new")
        term.wait("Start a new session\\?")
        term.key("y")
        term.wait("ready │ script.json │ 0/128k", absent="Another model speaks.")
        term.enter("hi again")
        term.wait("Hello there, friend.")
        first, second = sorted(sessions_of(place))
        assert first == session != second
        shown = place.run("sessions", "show", session)
        assert "After the interrupt." in shown.out and "There are three." in shown.out
        assert "A walk in the woods" in place.run("sessions", "list").out

        term.enter("/quit")
        term.wait_dead()
        assert served.process.poll() is None, "the gateway goes on without its client"
        assert served.stop() == 0
    assert pids_with(str(place.home)) == {}


def test_an_earlier_session_is_resumed_after_a_restart(place, client):
    ref = place.script({"text": "The word is zebra."}, {"text": "As I said: zebra."})
    with serving(place, "--model", ref) as served, client(served) as term:
        term.wait("ready │ script.json")
        term.enter("what is the word")
        term.wait("The word is zebra.", "ready │")
        term.key("C-d")
        term.wait_dead()
    (session,) = sessions_of(place)
    with serving(place, "--model", ref) as served, client(served, resume=session) as term:
        term.wait("what is the word", "The word is zebra.", "ready │ script.json")
        term.enter("say it again")
        term.wait("say it again", "The word is zebra.|As I said: zebra.", "ready │")
        assert sessions_of(place) == [session]
        term.key("C-x")
        term.wait("1 live", "current")


def test_sessions_are_listed_and_reopened_from_the_switcher(place, client):
    ref = place.script({"text": "First answer."})
    with serving(place, "--model", ref) as served, client(served) as term:
        term.wait("ready │ script.json")
        term.enter("the first conversation")
        term.wait("First answer.", "ready │")
        term.enter("/new")
        term.wait("Start a new session\\?")
        term.key("y")
        term.wait("ready │ script.json │ 0/128k", absent="First answer.")
        term.key("C-x")
        term.wait("1 live · 1 resumable", "the first conversation")
        term.press("Down", "▸ 2\\.")  # what the client loads meanwhile moves its mark back
        term.key("Enter")
        term.wait("First answer.", "the first conversation", absent="resumable")


def test_a_failing_model_is_told_in_its_own_words_and_the_client_goes_on(place, client):
    ref = place.script(
        [{"error": {"status": 401, "message": "the key has expired"}}], {"text": "Better now."}
    )
    with serving(place, "--model", ref) as served, client(served) as term:
        term.wait("ready │ script.json")
        term.enter("hi")
        term.wait("the key has expired", "ready │")
        term.enter("again")
        term.wait("Better now.")


@pytest.mark.starter
@pytest.mark.timeout(900)  # the model may have to be downloaded
def test_one_turn_against_the_starter_runtime(place, client, tmp_path_factory):
    place.config(ONE_THREAD)
    place.extra["XDG_CACHE_HOME"] = str(smollm2_cache(tmp_path_factory.mktemp("download")))
    with serving(place, "--model", f"starter:{SMOLLM2}") as served, client(served) as term:
        term.wait("ready │ starter:smollm2", patience_s=90)
        term.enter("Say hello.")
        term.wait(r"┊ \S+", patience_s=90)
        try:
            term.wait("ready │", r"✓ \d+s", patience_s=10)
        except AssertionError:  # so small a model may ramble to the end of its window
            term.key("C-c")
            term.wait(r"\[interrupted\]", "ready │")
        assert pids_with(str(place.root), "tenure.models.starter.runtime")
        assert served.stop() == 0
        assert not pids_with(str(place.home), "python"), "the runtime ends with its gateway"
