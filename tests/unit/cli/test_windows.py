"""Two windows on one session: what one does shows in the other; and leaving while turns run."""

from __future__ import annotations

import asyncio
import re

from support.commands import TENURE
from support.served import serving
from support.terminal import terminal

SLOWLY = [{"deltas": ["Slowly,\n\n"]}, {"gate": "first"}, {"text": "it ends."}]
TOUCH = {"call": {"name": "shell", "arguments": {"command": "touch made.txt"}}}


def chat(place, *args):
    return terminal([*TENURE, "chat", *args], env=place.env, cwd=place.work, size=(110, 40))


def let_through(place, gate: str) -> None:
    (place.root / f"script.json.{gate}.open").touch()


def count(pattern: str, text: str) -> int:
    return len(re.findall(pattern, text))


def test_what_the_other_window_says_queues_and_takes_back_is_shown(place):
    ref = place.script(SLOWLY, {"text": "Second answer."}, {"text": "Third answer."})
    with serving(place), chat(place, "--model", ref) as first:
        first.wait("the gateway at", "idle")
        first.enter("first prompt")
        first.wait("Slowly,", "working")
        with chat(place, "--session", "last") as second:
            second.wait(
                "› first prompt", "a turn is running since before this window came", "Slowly,"
            )
            assert count("› first prompt", second.screen()) == 1
            second.enter("second prompt")
            second.wait("queued behind 1")
            first.wait("another window queued: second prompt")
            let_through(place, "first")
            first.wait("it ends.", "› second prompt · another window", "Second answer.", "idle")
            screen = second.wait("it ends.", "Second answer.", "idle")
            assert count("› second prompt", screen) == 2, "when it was typed, and when it began"
            assert count("Slowly,", screen) == 1 and "another window" not in screen
            second.enter("/undo")
            second.wait("taken back: second prompt")
            first.wait("the last turn was taken back in another window")
            second.enter("third prompt")
            first.wait("› third prompt · another window", "Third answer.")
            screen = second.wait("Third answer.", "idle")
            assert count("› third prompt", screen) == 1 and "another window" not in screen


def test_a_question_that_is_answered_and_a_session_that_is_deleted_elsewhere(place):
    ref = place.script([TOUCH], {"text": "It is made."})
    with serving(place), chat(place, "--model", ref) as first:
        first.wait("idle")
        first.enter("make it")
        first.wait("Allow this\\?", "answer: 1 once")
        first.enter("nonsense")
        first.wait("Answer with one of once, session, always, deny")
        first.enter("/status")
        first.wait("waiting", "approvals ask", "answer: 1 once")
        with chat(place, "--session", "last") as second:
            second.wait("Allow this\\?", "answer: 1 once")
            second.enter("1")
            second.wait("It is made.", "idle")
        first.wait("the question is over: once", "It is made.", "idle")
        assert place.run("sessions", "delete", "--yes", "last").code == 0
        first.wait("this session was deleted in another window")
        first.enter("are you there")
        screen = first.wait("this session is deleted; /new begins another one")
        assert "session.resume" not in screen
        first.enter("/new")
        first.wait("/new .*the gateway at .*idle")
        first.enter("make it again")
        first.wait("› make it again.*Allow this\\?")


def test_a_window_in_which_nothing_was_said_is_not_the_last_session(place):
    ref = place.script({"text": "One."}, {"text": "Two."})
    assert place.run("run", "--model", ref, "remember this").code == 0
    with chat(place, "--model", ref) as term:
        term.wait("a gateway of its own", "idle")
        term.key("C-d")
        assert term.wait_dead() == 0
    assert len(place.run("sessions", "list").out.splitlines()) == 1
    assert place.run("sessions", "show", "last").out.startswith("› remember this")


def test_new_leaves_a_session_that_another_window_has_open(place):
    ref = place.script({"text": "One."}, {"text": "Two."})
    with serving(place), chat(place, "--model", ref) as first:
        first.wait("idle")
        first.enter("first prompt")
        first.wait("One.", "idle")
        with chat(place, "--session", "last") as second:
            second.wait("One.", "idle")
            first.enter("/new")
            first.wait("One..*the gateway at.*idle")
            second.enter("second prompt")
            assert "closed" not in second.wait("Two.", "idle")
            assert "Two." not in first.screen(), "it has left that session"


def test_a_closed_session_is_opened_again_by_the_next_prompt(place):
    ref = place.script({"text": "An answer."}, loop=True)
    with serving(place) as served, chat(place, "--model", ref) as term:
        term.wait("idle")
        term.enter("first prompt")
        term.wait("An answer.", "idle")
        (row,) = place.run("sessions", "list", "--json").rows()
        asyncio.run(close(served, row["id"]))
        term.wait("this session was closed .closed by a client.; the next prompt opens it again")
        term.enter("second prompt")
        screen = term.wait("An answer.*An answer.", "idle")
        assert count("› first prompt", screen) == 1, "what stands there is not shown again"
        assert count("› second prompt", screen) == 1 and "another window" not in screen
    (again,) = place.run("sessions", "list", "--json").rows()
    assert (again["id"], again["message_count"]) == (row["id"], 4)


async def close(served, session_id):
    async with served.client() as client:
        await client.call("session.close", session_id=session_id)


def test_leaving_waits_for_a_turn_that_another_window_watches(place):
    ref = place.script(SLOWLY)
    with chat(place, "--model", ref) as first:
        first.wait("a gateway of its own", "idle")
        first.enter("first prompt")
        first.wait("Slowly,", "working")
        with chat(place, "--session", "last") as second:
            second.wait("the gateway at", "Slowly,", "working")
            first.key("C-d")
            first.wait("Other clients have turns running here")
            let_through(place, "first")
            second.wait("it ends.", "attaching again", "a gateway of its own", "idle")
            assert first.wait_dead() == 0
            screen = second.screen()
            assert count("› first prompt", screen) == 1, "nothing is shown twice"
            assert count("it ends.", screen) == 1 and "interrupted" not in screen


def test_leaving_during_an_own_turn_says_what_becomes_of_it(place):
    ref = place.script(SLOWLY)
    with chat(place, "--model", ref) as term:
        term.wait("a gateway of its own", "idle")
        term.enter("first prompt")
        term.wait("Slowly,", "working")
        term.key("C-d")
        term.wait("Ctrl-D again cuts it off", "working")
        term.enter("/status")
        term.wait("approvals ask")
        term.key("C-d")
        term.wait("Ctrl-D again.*Ctrl-D again", "working")
        term.key("C-d")
        assert term.wait_dead() == 0
    with serving(place) as served, chat(place, "--session", "last") as term:
        del served
        term.wait("› first prompt", "working")
        term.key("C-d")
        assert term.wait_dead() == 0
        assert "the turn goes on; tenure chat --session" in term.history()


def test_attaching_again_shows_only_what_was_missed(place):
    goes_on = {"match": "goes on with it", "step": {"text": "And goes on."}}
    ref = place.script({"text": "One."}, SLOWLY, on=[goes_on])
    with serving(place) as served, chat(place, "--model", ref) as term:
        term.wait("the gateway at", "idle")
        term.enter("first prompt")
        term.wait("One.", "idle")
        term.enter("second prompt")
        term.wait("Slowly,", "working")
        served.process.kill()
        served.process.wait()
        term.wait("attaching again", "a gateway of its own", "And goes on.", "idle")
        screen = term.screen()
        for once in ("› first prompt", "One\\.", "› second prompt", "Slowly,", "And goes on\\."):
            assert count(once, screen) == 1, f"{once}: {screen}"
        assert "The gateway was restarted while" not in screen, "nobody has said that"
    assert "restarted while" not in place.run("sessions", "show", "last").out.partition("›")[0]
