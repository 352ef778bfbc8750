"""Case 11: a disconnect acts on what is bound to it at that moment, never on a snapshot."""

from __future__ import annotations

import asyncio

import pytest

from support.commands import Place
from support.served import serving
from tenure.lifecycle.scope import Scope
from tenure.models.script import Script
from tenure.sessions.attachments import Role
from tenure.testing.clock import settle
from tenure.testing.gateway import open_test_gateway


@pytest.fixture
def place(tmp_path) -> Place:
    return Place(tmp_path)


def rebinding(session, listener, scope, then):
    """An end of a connection in which the session is taken over between claim and act."""

    def claim(self, reason):
        first = then(self, reason)
        if self.name == "connection" and first and not taken:
            taken.append(session.attachments.attach(listener, scope, session.id))
        return first

    taken = []
    return claim, taken


@pytest.mark.parametrize("close_on_disconnect", [True, False])
async def test_taken_over_strictly_between_snapshot_and_act(
    tmp_path, monkeypatch, close_on_disconnect
):
    """Everything a handler could have looked at before is old when it acts."""
    async with open_test_gateway(tmp_path, Script([{"text": "Still here."}])) as gw:
        first, first_scope = await gw.client()
        second, _ = await gw.client()
        sid = await first.ready_session(close_on_disconnect=close_on_disconnect)
        session = gw.sessions.get(sid)
        # The second client's binding, made by hand at the one point between the old connection's
        # last look from outside and its acting.
        await second.call("session.attach", session_id=sid)
        lease = next(b for b in session.attachments._bound if b.value.epoch == 2)
        listener = lease.value.listener
        await second.call("session.detach", session_id=sid)
        assert len(session.attachments) == 1
        claim, taken = rebinding(session, listener, listener.scope, Scope.claim)
        monkeypatch.setattr(Scope, "claim", claim)
        await first_scope.close()
        await settle()
        assert taken, "the race was not entered"
        assert session.scope.admits
        assert [b.value.listener for b in session.attachments._bound] == [listener]
        await second.call("prompt.submit", session_id=sid, text="there?")
        assert (await second.until("message.complete", sid)).payload["text"] == "Still here."


@pytest.mark.parametrize("rounds", [0, 1, 2, 3, 5, 8])
async def test_a_resume_at_any_moment_of_the_end_of_the_old_connection(tmp_path, rounds):
    """Before it, the session stays; after it, it is closed and opened anew. Never in between."""
    async with open_test_gateway(tmp_path, Script([{"text": "Still here."}])) as gw:
        first, first_scope = await gw.client()
        second, _ = await gw.client()
        sid = await first.ready_session(close_on_disconnect=True)
        ending = gw.root.spawn(first_scope.close(), name="cut").value
        for _ in range(rounds):
            await asyncio.sleep(0)
        resumed = await second.call("session.resume", session_id=sid)
        await ending
        assert resumed["epoch"] in {1, 2}
        await second.call("prompt.submit", session_id=sid, text="there?")
        assert (await second.until("message.complete", sid)).payload["text"] == "Still here."
        assert len(gw.sessions.get(sid).attachments) == 1


async def test_a_detach_of_an_older_attachment_leaves_the_newer_one(tmp_path):
    async with open_test_gateway(tmp_path, Script([{"text": "Heard."}])) as gw:
        client, _ = await gw.client()
        sid = await client.ready_session()
        old = (await client.call("session.attach", session_id=sid))["attachment"]
        await client.call("session.detach", session_id=sid)
        await client.call("session.attach", session_id=sid)
        late = await client.call("session.detach", session_id=sid, attachment=old)
        assert late == {"detached": False}
        await client.call("prompt.submit", session_id=sid, text="hear me")
        assert (await client.until("message.complete", sid)).payload["text"] == "Heard."


async def test_a_viewer_left_behind_does_not_keep_a_session_that_was_to_close(tmp_path):
    async with open_test_gateway(tmp_path, Script([])) as gw:
        owner, owner_scope = await gw.client()
        viewer, _ = await gw.client()
        sid = await owner.ready_session(close_on_disconnect=True)
        await viewer.call("session.attach", session_id=sid, role=Role.VIEWER.value)
        await owner_scope.close()
        assert (await viewer.until("session.closed", sid)).payload["reason"] == "the client left"


@pytest.mark.parametrize("flag", [True, False])
async def test_over_real_sockets(place, flag):
    """Thirty sockets are cut without a word while another one resumes."""
    ref = place.script({"text": "Still here."}, loop=True)
    with serving(place, "--model", ref) as served:
        async with served.client() as keeper:
            for _ in range(30):
                async with served.client() as other:
                    sid = await other.ready_session(close_on_disconnect=flag)
                    resuming = asyncio.create_task(keeper.call("session.resume", session_id=sid))
                    other._transport._socket.transport.abort()
                    await resuming
                await keeper.call("prompt.submit", session_id=sid, text="there?")
                end = (await keeper.until("message.complete", sid)).payload
                assert end["text"] == "Still here."
                listed = await keeper.call("session.active_list")
                (row,) = [r for r in listed["sessions"] if r["id"] == sid]
                assert row["clients"] == 1
                await keeper.call("session.close", session_id=sid)
