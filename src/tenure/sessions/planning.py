"""Plan mode: an agent looks and plans, and changes nothing until a person approves its plan.

That nothing changes is a matter of the rules (`Policy.planning`), of whatever the session runs,
sub-agents and tools of servers included; the model is only told of it. The plan is one text of the
session: the agent proposes it, people edit it, and what is approved is what stands there then. The
approval and the end of the mode are one write.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from tenure.agent.ports import Question
from tenure.errors import AlreadyDecided, BadValue, Conflict, TooLarge
from tenure.sessions.journal import failed
from tenure.sessions.projection import Wire
from tenure.sessions.questions import Open, Yes
from tenure.sessions.setting import take_setting
from tenure.store.base import Op, PatchSession
from tenure.tools.base import Effect, Judged
from tenure.tools.plan import PLAN, PLAN_CHARS_MAX

if TYPE_CHECKING:
    from tenure.sessions.actor import Session

ABOUT = """

Plan mode is on: nothing may be changed, and calls that might are denied, until the person \
approves a plan. Look around as far as it takes, ask what only the person can decide, then call \
plan with the whole plan in Markdown: what you will change, where, in which order, and how you \
will check it."""
_NOBODY = (
    "Nobody can be asked here. The plan is kept for the person, and plan mode stays on: end now, "
    "with the plan as your answer."
)
_ASKED = "The agent has made a plan; yes ends plan mode, and it is carried out."


class Plan(msgspec.Struct, frozen=True):
    """A session's plan. Nothing in it: there is none yet.

    Attributes:
        on: whether plan mode is.
        text: the plan, in Markdown.
        revision: counts its changes.
        approved_at: when it was approved, in seconds since 1970; 0: it is not.
    """

    on: bool = False
    text: str = ""
    revision: int = 0
    approved_at: float = 0.0


NO_PLAN = Plan()


def plan_of(session: Session) -> Plan:
    """The session's plan as it is now."""
    kept = session.settings.get(PLAN)
    return msgspec.convert(kept, Plan) if kept else NO_PLAN


def _changed(plan: Plan) -> Wire:
    return "plan.changed", msgspec.to_builtins(plan)


def _latest(session: Session) -> Plan:
    """The plan as it was accepted last, also before that is stored: a change builds on this."""
    return session.plan_accepted or plan_of(session)


def _accept(session: Session, plan: Plan) -> Callable[[bool], None]:
    """Have what follows build on `plan`; call the result with whether it was stored."""
    session.plan_accepted = plan

    def ended(stored: bool) -> None:
        if stored:
            take_setting(session, PLAN, msgspec.to_builtins(plan))
        if session.plan_accepted is plan:
            session.plan_accepted = None

    return ended


async def _keep(session: Session, plan: Plan) -> Plan:
    ended = _accept(session, plan)
    commit = session.journal.record([_row(session, plan)], [_changed(plan)])
    commit.add_done_callback(lambda done: ended(not failed(done)))
    await asyncio.shield(commit)
    _show(session, plan)
    return plan


def _row(session: Session, plan: Plan) -> Op:
    return PatchSession(session.id, {"settings": {PLAN: msgspec.to_builtins(plan)}})


def _show(session: Session, plan: Plan) -> None:
    """Let an open question show the plan as it stands to whoever comes late."""
    if (entry := _waiting(session)) is not None:
        entry.payload |= {"command": plan.text, "revision": plan.revision}


def _waiting(session: Session) -> Open | None:
    """The open question about the plan."""
    return session.questions.about(PLAN)


async def set_mode(session: Session, on: bool) -> Plan:
    """Turn plan mode on or off, for every call that has not begun; calls that run go on.

    Turned off without an approval, an open question about the plan is answered with no.

    Raises:
        StoreError: it could not be stored; on is on all the same until the session is unloaded.
    """
    plan = _latest(session)
    if plan.on == on:
        return plan
    plan = msgspec.structs.replace(plan, on=on, approved_at=0.0)
    if on:
        take_setting(session, PLAN, msgspec.to_builtins(plan))  # at once: no call slips through
    plan = await _keep(session, plan)
    if not on and (entry := _waiting(session)) is not None:
        entry.words = "Plan mode was turned off without approving the plan; go on as you were told."
        await session.questions.respond(entry.request_id, "deny", everything=False)
    return plan


async def edit(session: Session, text: str, revision: int | None) -> Plan:
    """Change the text of the plan; an approval that follows is for the new one.

    Args:
        session: whose.
        text: the whole plan.
        revision: what the editor has seen; None: whatever stands there.

    Raises:
        BadValue: it is empty. TooLarge: over 32,000 characters.
        Conflict: another one has changed it.
        StoreError: the old one stands.
    """
    plan = _latest(session)
    _check(plan, revision)
    if not text.strip():
        raise BadValue("The plan is empty; say what is to be done.")
    if len(text) > PLAN_CHARS_MAX:
        raise TooLarge(f"A plan has at most {PLAN_CHARS_MAX:,} characters.")
    changed = msgspec.structs.replace(plan, text=text, revision=plan.revision + 1, approved_at=0.0)
    return await _keep(session, changed)


def _check(plan: Plan, revision: int | None) -> None:
    if revision is not None and revision != plan.revision:
        raise Conflict(
            f"The plan was changed meanwhile: it is revision {plan.revision}, not {revision}; look "
            "at it again."
        )


async def approve(session: Session, principal: str, revision: int | None) -> Plan:
    """Approve the plan as it stands; plan mode ends with that write.

    A turn that waits for it goes on; without one, the next turn's agent is told.

    Raises:
        BadValue: there is no plan, or plan mode is off.
        Conflict: the plan is another one than the person has seen.
        AlreadyDecided, Unauthorized, StoreError: nothing is approved.
    """
    plan = _latest(session)
    _check(plan, revision)
    if not plan.on or not plan.text:
        what = "Plan mode is off" if not plan.on else "There is no plan yet"
        raise BadValue(f"{what}, so there is nothing to approve.")
    if (entry := _waiting(session)) is not None:
        await session.questions.respond(
            entry.request_id, "once", everything=False, principal=principal
        )
        return plan_of(session)
    yes = _yes(session)
    told = f"The person has approved this plan; carry it out:\n{plan.text}\n"
    commit = session.notes.tell(told, yes.ops, yes.events)
    commit.add_done_callback(lambda done: yes.ended(not failed(done)))
    await asyncio.shield(commit)
    return plan_of(session)


async def reject(session: Session, principal: str, words: str) -> Plan:
    """Send the plan back; plan mode stays on.

    Args:
        session: whose.
        principal: who says so.
        words: what should be otherwise, for the agent.

    Raises:
        AlreadyDecided: no plan waits (any more).
        Unauthorized, StoreError: it waits on.
    """
    entry = _waiting(session)
    if entry is None:
        raise AlreadyDecided(
            "No plan waits for an answer; say in a prompt what should be otherwise."
        )
    entry.words = f"The person wants another plan: {words.rstrip('.')}." if words else ""
    await session.questions.respond(entry.request_id, "deny", everything=False, principal=principal)
    return plan_of(session)


def _yes(session: Session) -> Yes:
    """What an approval stores and tells: the plan as it stands this moment."""
    now = session.ports.clock.wall()
    plan = msgspec.structs.replace(_latest(session), on=False, approved_at=now)
    return Yes([_row(session, plan)], [_changed(plan)], _accept(session, plan))


async def propose(session: Session, turn_id: str, text: str) -> Judged:
    """Store a plan of the agent's and ask about it; see `tools/plan.py`.

    Raises:
        StoreError: it could not be stored, or not be asked.
    """
    if not plan_of(session).on:
        return Judged(True, "Plan mode is off; go on.")
    await edit(session, text, None)
    if not session.questions.interactive:
        return Judged(False, _NOBODY)
    plan = _latest(session)  # somebody may have changed it since
    question = Question(
        "", PLAN, Effect.READ, plan.text, str(session.work.sandbox.root), _ASKED,
        place=session.work.sandbox.confinement.about, revision=plan.revision,
    )  # fmt: skip
    decision = await session.questions.ask(question, turn_id, yes=lambda: _yes(session))
    plan = plan_of(session)
    if decision.choice != "deny":
        return Judged(
            True, f"The person has approved the plan{_as_edited(plan, text)}; carry it out."
        )
    told = decision.text or "The person said no to the plan; ask what should be otherwise."
    still = " Plan mode stays on." if plan.on else ""
    return Judged(False, f"{told}{still}{_as_edited(plan, text)}")


def _as_edited(plan: Plan, text: str) -> str:
    """The plan where a person has changed it."""
    return "" if plan.text == text else f", as they have edited it:\n{plan.text}\n"
