"""The states of a session, and what each looks like from outside.

    [UNBUILT ->] BUILDING -> IDLE <-> RUNNING -> (the scope is CLOSING, then CLOSED)
                    ^          |
                    UNBUILT <--+   at rest: nothing but the record is held

There is no second copy of "closed": that is the scope's state. Being without clients is a property
of the attachments, not a state.
"""

from __future__ import annotations

import enum


class SessionState(enum.Enum):
    """Where the actor is."""

    UNBUILT = "resting"
    """No agent and no history in memory, and nobody has asked for them; the first prompt does."""
    BUILDING = "starting"
    IDLE = "idle"
    RUNNING = "working"
    FAILED = "failed"
    """The agent could not be built; the next prompt tries again."""


def shown(state: SessionState, *, asking: bool) -> str:
    """The state in the word that clients know.

    Args:
        state: the actor's state.
        asking: whether a question waits for a person.
    """
    if state is SessionState.RUNNING and asking:
        return "waiting"
    if state is SessionState.FAILED or state is SessionState.UNBUILT:
        return "idle"
    word: str = state.value
    return word
