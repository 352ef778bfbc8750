"""Questions to a person in a terminal: how they look, and what a typed line answers."""

from __future__ import annotations

import asyncio
import sys
import termios
from typing import Any

from tenure.ids import whole_number

_KEYS = {"1": "once", "y": "once", "2": "session", "3": "always", "4": "deny", "n": "deny"}
REQUESTS = {f"{kind}.request": kind for kind in ("approval", "clarify", "secret", "sudo")}
"""Events that ask, and what for."""
_HIDDEN = frozenset({"secret", "sudo"})
_FIELD = {"clarify": "answer", "secret": "value", "sudo": "password"}
Call = tuple[str, dict[str, Any]]
"""A method and its params."""


def is_hidden(question: dict[str, Any] | None) -> bool:
    """Whether what is typed must neither be seen nor remembered."""
    return question is not None and question["kind"] in _HIDDEN


def is_plan(question: dict[str, Any] | None) -> bool:
    """Whether it is about the plan of a session in plan mode."""
    return (
        question is not None and question["kind"] == "approval" and question.get("tool") == "plan"
    )


def question_text(question: dict[str, Any]) -> str:
    """The question with everything it depends on.

    Args:
        question: its ``kind`` and the payload of its request.
    """
    if question["kind"] == "clarify":
        numbered = enumerate(question["choices"] or (), 1)
        lines = ["", question["question"], *(f"  [{n}] {choice}" for n, choice in numbered)]
    elif question["kind"] in _HIDDEN:
        lines = ["", question["prompt"], "  (typed unseen; the model does not get it; empty: no)"]
    elif is_plan(question):
        lines = ["", "The agent has made a plan:", "", question["command"].rstrip(), ""]
        lines.append("  [1] carry it out  [4] no, or say in a line what should be otherwise")
    else:
        lines = _approval(question)
    return "\n".join(lines) + "\n> "


def _approval(question: dict[str, Any]) -> list[str]:
    """Command, directory, effect, stored pattern."""
    lines = [
        "",
        f"Allow this? {question['description']}",
        f"  {question['command']}",
        f"  in {question['cwd']} (effect: {question['effect']})",
    ]
    if question.get("place"):
        lines.append(f"  commands run {question['place']}")
    if question["allow_permanent"]:
        lines.append(f"  [1] once  [2] this session  [3] always: {', '.join(question['patterns'])}")
        return [*lines, "  [4] deny"]
    return [*lines, "  [1] once  [4] deny"]


def keys_of(question: dict[str, Any]) -> str:
    """What may be typed, in a few words."""
    if is_plan(question):
        return "answer: 1 carry it out · e edit it · 4 no, or say what should be otherwise"
    if question["kind"] == "approval":
        lasting = " · 2 session · 3 always" if question["allow_permanent"] else ""
        return f"answer: 1 once{lasting} · 4 deny"
    return "type the secret" if is_hidden(question) else "type your answer"


def answer_of(question: dict[str, Any], line: str) -> Call | None:
    """The request that a typed line means; None where it is none of the answers."""
    named = {"request_id": question["request_id"]}
    kind = question["kind"]
    if is_plan(question):
        return _answer_to_plan(question, line.strip())
    if kind == "approval":
        word = line.strip().lower()
        choice = _KEYS.get(word, word)
        known = choice in question["choices"]
        return ("approval.respond", {**named, "choice": choice}) if known else None
    typed = line if kind in _HIDDEN else line.strip()
    choices = (question.get("choices") or []) if kind == "clarify" else []
    if 1 <= (number := whole_number(typed) or 0) <= len(choices):
        typed = choices[number - 1]
    return f"{kind}.respond", {**named, _FIELD[kind]: typed}


def _answer_to_plan(question: dict[str, Any], line: str) -> Call | None:
    """A yes is for the plan that was shown; whatever is no answer is said to the agent."""
    choice = _KEYS.get(line.lower(), line.lower())
    if choice == "once":
        return "plan.approve", {"revision": question["revision"]}
    if choice == "deny":
        return "approval.respond", {"request_id": question["request_id"], "choice": choice}
    return ("plan.reject", {"text": line}) if len(line) > 1 else None


async def ask_person(question: dict[str, Any]) -> Call:
    """Ask until there is an answer. The end of input denies, or does not answer.

    Can be cancelled, which leaves the terminal as it was: the question is over before its answer.
    """
    while True:
        sys.stderr.write(question_text(question))
        sys.stderr.flush()
        line = await (_unseen() if is_hidden(question) else _line())
        if not line and question["kind"] == "approval":
            line = "deny"
        call = answer_of(question, line.rstrip("\n"))
        if call is not None:
            return call


async def _line() -> str:
    """A line of the terminal; empty at its end. Not by a thread: that could not be called back."""
    loop, ready = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(sys.stdin.fileno(), ready.set)
    try:
        await ready.wait()
    except asyncio.CancelledError:
        sys.stderr.write("\n")
        raise
    finally:
        loop.remove_reader(sys.stdin.fileno())
    return sys.stdin.readline()  # whole, since the terminal gives it at its end


async def _unseen() -> str:
    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)
    quiet = [*before[:3], before[3] & ~termios.ECHO, *before[4:]]
    termios.tcsetattr(terminal, termios.TCSAFLUSH, quiet)
    try:
        line = await _line()
    finally:
        termios.tcsetattr(terminal, termios.TCSAFLUSH, before)
    sys.stderr.write("\n")
    return line
