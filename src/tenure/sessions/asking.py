"""What a turn is given to ask a person with: the session's questions under the turn's own name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from tenure.agent.ports import Decision, Policy, Question
from tenure.sessions.questions import Kind, Questions

if TYPE_CHECKING:
    from tenure.sessions.workplace import Workplace

SUDO = "SUDO_PASSWORD"
"""The name under which a command asks for the password of sudo."""


class TurnAsker:
    """One turn's `Asker`: the session's questions under this turn's name.

    Args:
        questions: the session's.
        turn_id: the turn.
        work: where its commands run, which every question says.
    """

    __slots__ = ("_questions", "_turn_id", "_work")

    def __init__(self, questions: Questions, turn_id: str, work: Workplace) -> None:
        self._questions = questions
        self._turn_id = turn_id
        self._work = work

    def policy(self) -> Policy:
        """The rules and grants as they are now."""
        policy, servers = self._questions.policy(), self._work.servers
        rules = (*policy.rules, *servers.rules()) if servers else policy.rules
        return msgspec.structs.replace(
            policy, rules=rules, boxed=self._work.confined, planning=self._work.planning
        )

    async def ask(self, question: Question) -> Decision:
        """See `Asker.ask`."""
        place = self._work.sandbox.confinement.about
        question = msgspec.structs.replace(question, place=place)
        return await self._questions.ask(question, self._turn_id)


class TurnPerson:
    """One call's `Person`: the session's questions under its turn's name.

    Args:
        questions: the session's.
        turn_id: the turn of the call.
    """

    __slots__ = ("_questions", "_turn_id")

    def __init__(self, questions: Questions, turn_id: str) -> None:
        self._questions = questions
        self._turn_id = turn_id

    async def clarify(self, question: str, choices: tuple[str, ...]) -> str | None:
        """See `Person.clarify`."""
        facts = {"question": question, "choices": list(choices) or None}
        return await self._questions.ask_for("clarify", self._turn_id, facts)

    async def secret(self, name: str, why: str) -> str | None:
        """See `Person.secret`."""
        facts: dict[str, Any] = {"prompt": why, "env_var": name, "metadata": {}}
        kind: Kind = "sudo" if name == SUDO else "secret"
        return await self._questions.ask_for(kind, self._turn_id, facts)
