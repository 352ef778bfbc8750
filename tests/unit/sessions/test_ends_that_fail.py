"""An end that meets a fault of ours still frees what it was to free."""

from __future__ import annotations

from tenure.models.script import Script
from tenure.sessions.actor import Session
from tenure.sessions.turns import LiveTurn
from tenure.testing.clock import settle
from tenure.testing.gateway import open_test_gateway


async def test_a_turn_that_is_over_can_be_cancelled(root):
    async def never():
        raise AssertionError("it was cancelled before its first step")

    scope = root.child("session")
    turn = LiveTurn("turn_1", 1, "hello", 0.0)
    turn.task = scope.spawn(never(), name="turn")
    await turn.task.release()
    turn.cancel("user")
    assert turn.cause == "user"


async def test_a_closing_that_fails_frees_what_the_session_holds(tmp_path, monkeypatch):
    async with open_test_gateway(tmp_path, Script([{"text": "hi"}])) as gateway:
        client, _ = await gateway.client()
        session_id = await client.ready_session()
        session = gateway.sessions.get(session_id)
        assert gateway.picker.opened

        def broken(*_):
            raise ZeroDivisionError("a fault of ours")

        with monkeypatch.context() as patch:
            patch.setattr(Session, "return_queue", broken)
            await gateway.sessions.close(session, "closed")
        await settle()
        assert session.scope.state.value == "closed"
        assert gateway.picker.opened == []
        assert gateway.sessions.find(session_id) is None
