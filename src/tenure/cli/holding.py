"""A stored or live session, held by a command for as long as it takes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tenure.cli.attach import Where, attach
from tenure.cli.sessions import id_of
from tenure.client import Client


@asynccontextmanager
async def holding(where: Where, session: str) -> AsyncIterator[tuple[Client, str]]:
    """A client, and the id of the session that it holds.

    Ownership: a session that nobody else holds ends with the block.

    Args:
        where: which gateway.
        session: an id, a title or ``last``; empty: none is meant, and the id is empty.

    Raises:
        NotFound: there is no such session.
    """
    async with attach(where) as attached:
        if session:
            session = await id_of(attached.client, where.profile, session)
            await attached.client.call(
                "session.resume", session_id=session, profile=where.profile, lazy=True,
                omit_messages=True, close_on_disconnect=True,
            )  # fmt: skip
        yield attached.client, session
