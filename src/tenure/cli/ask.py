"""Ask a person in a terminal whether a call may run."""

from __future__ import annotations

import sys
from typing import Any

from tenure.lifecycle.threads import call_in_thread

_KEYS = {"1": "once", "y": "once", "2": "session", "3": "always", "4": "deny", "n": "deny"}


def question_text(question: dict[str, Any]) -> str:
    """The question with everything it depends on: command, directory, effect, stored pattern."""
    lines = [
        "",
        f"Allow this? {question['description']}",
        f"  {question['command']}",
        f"  in {question['cwd']} (effect: {question['effect']})",
    ]
    if question["allow_permanent"]:
        lines.append(f"  [1] once  [2] this session  [3] always: {', '.join(question['patterns'])}")
        lines.append("  [4] deny")
    else:
        lines.append("  [1] once  [4] deny")
    return "\n".join(lines) + "\n> "


async def ask_approval(question: dict[str, Any]) -> str:
    """The choice: once, session, always or deny. End of input denies."""
    while True:
        sys.stderr.write(question_text(question))
        sys.stderr.flush()
        line = await call_in_thread(sys.stdin.readline)
        if not line:
            return "deny"
        choice: str = _KEYS.get(line.strip().lower(), line.strip().lower())
        if choice in question["choices"]:
            return choice
