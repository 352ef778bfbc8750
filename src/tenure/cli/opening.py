"""What `run` and `chat` do with a session that they have just created or resumed."""

from __future__ import annotations

from typing import Any

from tenure.client import Client
from tenure.protocol.messages import EventParams


async def wait_built(client: Client, session: str, info: dict[str, Any]) -> dict[str, Any]:
    """The session's facts once its agent is there, or once it is clear that there will be none.

    What else happens meanwhile is not lost: it comes afterwards.

    Args:
        client: attached to the session.
        session: its id.
        info: what the opening answered.
    """
    others: list[EventParams] = []
    while info["lazy"] and "credential_warning" not in info:
        event = await client.next_event()
        if event.session_id == session and event.type == "session.info":
            info = event.payload
        elif event.session_id != session or event.type != "error":
            others.append(event)
        else:
            info = {**info, "credential_warning": event.payload["message"]}
    client.put_back(others)
    return info


async def with_model(
    client: Client, session: str, info: dict[str, Any], wanted: str
) -> dict[str, Any]:
    """Switch a resumed session to the model that the person named; its facts afterwards.

    Raises:
        SessionBusy: a turn runs in it.
    """
    if not wanted or info["model"] == wanted:
        return info
    changed = await client.call("config.set", session_id=session, key="model", value=wanted)
    return await wait_built(client, session, changed["info"])


async def plan_now(client: Client, session: str) -> dict[str, Any]:
    """What a question about the plan shows of it, as it stands now."""
    plan = await client.call("plan.get", session_id=session)
    return {"command": plan["text"], "revision": plan["revision"]}
