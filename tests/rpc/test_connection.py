"""What a connection takes at once, and what its client does when it is gone."""

from __future__ import annotations

import asyncio

import pytest

from tenure.errors import Overloaded, TransportError
from tenure.models.script import Script
from tenure.rpc.connection import REQUESTS_MAX
from tenure.testing.clock import settle
from tenure.testing.gates import Gate
from tenure.testing.gateway import open_test_gateway
from tenure.transports.base import TransportClosed


async def test_more_requests_than_it_runs_at_once_are_refused(rig):
    session = await rig.session()
    gate = rig.gateway.store._gate = Gate()
    waiting = [
        asyncio.create_task(rig.call("session.title", session_id=session, title=f"t{n}"))
        for n in range(REQUESTS_MAX)
    ]
    await gate.wait_parked()
    try:
        with pytest.raises(Overloaded, match=f"{REQUESTS_MAX} requests of this connection"):
            await rig.call("gateway.info")
    finally:
        rig.gateway.store._gate = None
        gate.release()
        await asyncio.gather(*waiting)
    assert (await rig.call("gateway.info"))["version"]


async def test_a_client_whose_gateway_has_gone_says_so_and_gives_out_what_came_before(tmp_path):
    async with open_test_gateway(tmp_path, Script([])) as gateway:
        client, _ = await gateway.client()
        session = await client.ready_session()
        await client.call("session.title", session_id=session, title="A name")
        parked = asyncio.create_task(client.until("never"))
        await settle()
        await gateway._connections.close("a test")
        with pytest.raises(TransportClosed):
            await parked
        with pytest.raises(TransportClosed):
            await client.next_event()
        with pytest.raises(TransportError, match="is gone"):
            await client.call("gateway.info")


async def test_an_answer_that_nobody_waits_for_any_more_harms_nobody(rig):
    session = await rig.session()
    gate = rig.gateway.store._gate = Gate()
    left = asyncio.create_task(rig.call("session.title", session_id=session, title="late"))
    await gate.wait_parked()
    left.cancel()
    await settle()
    rig.gateway.store._gate = None
    gate.release()
    await rig.client.until("session.title", session)
    await settle()  # its answer has come, too
    assert (await rig.call("session.title", session_id=session))["title"] == "late"
