"""Plan mode in the chat, in `tenure run --plan` and with `tenure plan`."""

from __future__ import annotations

import asyncio

from support.commands import TENURE
from support.served import serving
from support.terminal import terminal

TOUCH = {"call": {"name": "shell", "arguments": {"command": "touch made.txt"}}}


def chat_on(place, session):
    return terminal(
        [*TENURE, "chat", "--session", session], env=place.env, cwd=place.work, size=(100, 40)
    )


def plan(text):
    return {"call": {"name": "plan", "arguments": {"plan": text}}}


def made(place) -> bool:
    return (place.work / "made.txt").exists()


def test_the_chat_shows_edits_and_approves_a_plan(place):
    ref = place.script(plan("Touch it"), plan("Touch it again"), TOUCH, {"text": "All done."})
    with terminal(
        [*TENURE, "chat", "--plan", "--yes", "--model", ref],
        env=place.env,
        cwd=place.work,
        size=(100, 40),
    ) as term:
        term.wait("plan mode: nothing is changed until you approve a plan", "Ctrl-D leaves")
        term.enter("make it")
        term.wait("The agent has made a plan", "Touch it", r"\[1\] carry it out", "e edit it")
        term.enter("with a backup")
        term.wait("Touch it again")
        assert not made(place)
        term.enter("e")
        term.wait("Enter keeps the plan")
        term.enter(" and look")
        term.wait("Touch it again and look")
        term.enter("1")
        term.wait("the plan is approved", "All done.", "idle")
        assert made(place)
        term.enter("/plan")
        term.wait("plan mode is off, the plan is approved")
        term.key("C-d")
        assert term.wait_dead() == 0
    told = place.run("sessions", "show", "last").out
    assert "wants another plan: with a backup." in told
    assert "as they have edited it" in told


def test_a_run_leaves_a_plan_that_is_approved_later(place):
    ref = place.script(plan("Touch it."), {"text": "My plan: touch it."})
    ran = place.run("run", "--plan", "--model", ref, "make it")
    assert (ran.code, ran.out) == (0, "My plan: touch it.\n") and "tenure plan show" in ran.err
    shown = place.run("plan", "show")
    assert (shown.out, shown.err) == ("Touch it.\n", "plan mode is on\n")
    (place.work / "plan.md").write_text("Touch it, then look.\n")
    assert place.run("plan", "edit", "last", "--file", "plan.md").code == 0
    assert place.run("plan", "show", "--json").rows()["revision"] == 2
    approved = place.run("plan", "approve", "last")
    assert approved.code == 0 and "have it carried out with: tenure run" in approved.err
    again = place.run("plan", "approve", "last")
    assert again.code == 2 and again.sentence.startswith("tenure: Plan mode is off")
    ref = place.script(TOUCH, {"text": "Made."})
    ran = place.run("run", "--session", "last", "--yes", "--model", ref, "go on")
    assert ran.code == 0 and made(place), ran.err
    assert "carry it out:\nTouch it, then look." in place.run("sessions", "show", "last").out


def run_in_a_terminal(place, *args):
    return terminal([*TENURE, "run", *args], env=place.env, cwd=place.work, size=(100, 40))


async def test_what_another_client_makes_of_the_plan_is_asked_about(place):
    """In the chat it is shown; who has said yes to the earlier one is asked again."""
    ref = place.script(plan("Touch it"), TOUCH, {"text": "All done."})
    with serving(place) as served:
        async with served.client() as other:
            with run_in_a_terminal(place, "--plan", "--yes", "--model", ref, "make it") as term:
                await asyncio.to_thread(term.wait, "Touch it", r"\[1\] carry it out")
                (row,) = (await other.call("session.active_list"))["sessions"]
                await other.call("session.resume", session_id=row["id"])
                await other.call("plan.edit", session_id=row["id"], text="Touch it twice")
                with chat_on(place, row["id"]) as window:
                    await asyncio.to_thread(window.wait, "Touch it twice", "e edit it")
                    await other.call("plan.edit", session_id=row["id"], text="Touch it thrice")
                    await asyncio.to_thread(window.wait, "the plan was changed:", "Touch it thrice")
                    term.enter("1")
                    await asyncio.to_thread(
                        term.wait, "The plan was changed meanwhile", "Touch it thrice"
                    )
                    assert not made(place)
                    term.enter("1")
                    await asyncio.to_thread(term.wait, "Allow this")  # the chat came without --yes
                    term.enter("1")
                    await asyncio.to_thread(term.wait, "All done.")
                    assert made(place)
                    await asyncio.to_thread(window.wait, "the plan is approved", "All done.")
                    window.key("C-d")


def test_a_session_that_goes_on_can_be_put_into_it(place):
    assert place.run("run", "--model", place.script({"text": "Hi."}), "hi").code == 0
    ref = place.script(TOUCH, {"text": "I may not."})
    ran = place.run("run", "--session", "last", "--plan", "--yes", "--model", ref, "make it")
    assert ran.code == 3 and not made(place)
    assert place.run("plan", "off", "last").err == "plan mode is off\n"
    no_text = place.run("plan", "edit", "last", input="x")
    assert no_text.code == 2 and "--file" in no_text.err
    missing = place.run("plan", "edit", "last", "--file", "none.md")
    assert missing.code == 2 and "none.md cannot be read" in missing.err
