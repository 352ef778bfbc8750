"""Case 21: a place among the sessions ends with its session, however that ends."""

from __future__ import annotations

import pytest

from support.idle import IDLE_S, idle_gateway, live, pass_time
from tenure.errors import ModelError, Overloaded, StoreFull
from tenure.testing.clock import settle


async def test_every_way_out_gives_the_place_back(tmp_path):
    async with idle_gateway(tmp_path, sessions_max=2) as gw:
        client, _ = await gw.client()
        for how in ("close", "delete", "cut", "unload", "build failure", "not stored") * 4:
            other, scope = await gw.client()
            if how == "not stored":
                gw.store.fail(StoreFull("No space is left."))
                with pytest.raises(StoreFull):
                    await other.call("session.create")
                continue
            if how == "build failure":
                gw.picker.failures["model"] = ModelError("none to be had")
                sid = (await other.call("session.create"))["session_id"]
                await other.until("error", sid)
                gw.picker.failures.clear()
                await other.call("session.close", session_id=sid)
            else:
                sid = await other.ready_session(close_on_disconnect=how == "cut")
            if how in {"close", "delete"}:
                await other.call(f"session.{how}", session_id=sid)
            await scope.close()
            await settle(40)
            if how == "unload":
                await pass_time(gw, 2 * IDLE_S)
        assert live(gw) == []
        kept = [await client.ready_session() for _ in range(2)]
        with pytest.raises(Overloaded, match="sessions_max"):
            await client.call("session.create")
        assert live(gw) == kept


async def test_an_unused_session_makes_room_for_a_new_one(tmp_path):
    async with idle_gateway(tmp_path, loaded_max=2) as gw:
        client, _ = await gw.client()
        first, second = await client.ready_session(), await client.ready_session()
        await client.call("session.detach", session_id=first)
        third = await client.ready_session()
        await settle(40)
        assert live(gw) == [second, third]
        assert (await gw.store.session(first)).status == "idle"
        fourth = await client.ready_session()
        assert live(gw) == [second, third, fourth], "attached ones are nobody's to take"
