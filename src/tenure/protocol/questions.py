"""Questions to a person: how they are answered, and what was allowed for longer than once."""

from __future__ import annotations

from typing import Any

import msgspec

from tenure.protocol.params import MaybeSession


class ClarifyRespond(MaybeSession, kw_only=True):
    """Params of clarify.respond. An empty answer means that the person does not want to answer."""

    request_id: str
    answer: str = ""


class SecretRespond(MaybeSession, kw_only=True):
    """Params of secret.respond. An empty value refuses."""

    request_id: str
    value: str = ""


class SudoRespond(MaybeSession, kw_only=True):
    """Params of sudo.respond. An empty password refuses."""

    request_id: str
    password: str = ""


class Replied(msgspec.Struct):
    """Whether an answer counted: ok, or expired (answered already, or not asked any more)."""

    status: str


class ApprovalList(MaybeSession, kw_only=True):
    """Params of approval.list."""

    profile: str = ""
    """Whose standing grants; a session that is named has its own profile."""


class Grant(msgspec.Struct, kw_only=True):
    """Something that is allowed without asking."""

    id: str
    extent: str
    """always, or session."""
    allows: list[str]
    """What, for people ("shell: git push *")."""


class Grants(msgspec.Struct):
    """Result of approval.list."""

    grants: list[Grant]


class ApprovalRevoke(ApprovalList, kw_only=True):
    """Params of approval.revoke."""

    id: str
    """As approval.list names it."""


class Revoked(msgspec.Struct):
    """Result of approval.revoke: the id."""

    revoked: str


class ClarifyRequest(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Payload of clarify.request."""

    request_id: str
    turn_id: str
    question: str
    choices: list[str] | None
    """What may be picked from; something else may be answered all the same."""


class SecretRequest(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Payload of secret.request and sudo.request."""

    request_id: str
    turn_id: str
    prompt: str
    env_var: str
    """The variable that the asking command gets."""
    metadata: dict[str, Any]


class QuestionSettled(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Payload of question.settled: exactly one for each question."""

    request_id: str
    kind: str
    """approval, clarify, secret or sudo."""
    decision: str
    """The choice; answered or refused; denied or void, and why. Never what was typed."""


class Expired(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Payload of NAME.expire: nobody answered in time, or the turn has ended."""

    request_id: str


class ApprovalMode(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Payload of approval.mode: whether what would be asked is let pass from now on."""

    mode: str
    """ask or yes."""
    source: str
    """Which request wanted that; empty with ask."""


QUESTION_METHODS: dict[str, tuple[type[msgspec.Struct], Any, str]] = {
    "clarify.respond": (ClarifyRespond, Replied, "Answer a question of the agent's."),
    "secret.respond": (SecretRespond, Replied, "Type a secret for the command that asks for it."),
    "sudo.respond": (SudoRespond, Replied, "Type the password of sudo for the command that asks."),
    "approval.list": (ApprovalList, Grants, "What is allowed always, and in the session named."),
    "approval.revoke": (ApprovalRevoke, Revoked, "Take back what is allowed; it is asked again."),
}
"""name -> (params, result, about)"""
