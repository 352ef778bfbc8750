"""What is torn in the middle: writes that fail, requesters that leave, interrupts, deletions.

The simulation found each of these; here each is a few lines that always happen the same way.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from dataclasses import replace

import pytest

from tenure.errors import LeaseLost, ModelError, NotFound, SessionBusy, SessionClosing, StoreFull
from tenure.models.script import Script
from tenure.sessions.journal import stored
from tenure.sessions.prompts import take_steered
from tenure.store.base import PatchTurn
from tenure.testing.clock import settle
from tenure.testing.gates import Gate
from tenure.testing.gateway import open_test_gateway
from tenure.testing.store import MemoryStore
from tenure.testing.tools import scripted_tool
from tenure.testing.waiting import until

FULL = StoreFull("No space is left.")
CALL = {"call": {"name": "probe", "arguments": {"text": "it"}}}


class SlowStore(MemoryStore):
    """A store whose commits wait between `block` and `unblock`."""

    block_at_start = False
    """Block by itself when a turn is to run."""

    def write(self, *ops):
        runs = any(isinstance(op, PatchTurn) and op.changes["state"] == "running" for op in ops)
        if self.block_at_start and runs:
            self.block()
        return super().write(*ops)

    def block(self) -> None:
        self._gate = Gate()

    def unblock(self) -> None:
        gate, self._gate = self._gate, None
        gate.release()


@asynccontextmanager
async def gateway(tmp_path, *steps, tools=()):
    async with open_test_gateway(
        tmp_path, Script(list(steps)), store=SlowStore(), tools=lambda _c, _s: tools
    ) as gw:
        yield gw


async def ready(gw):
    client, scope = await gw.client()
    sid = await client.ready_session()
    return client, scope, gw.sessions.get(sid)


async def said(client, session, text="one"):
    await client.call("prompt.submit", session_id=session.id, text=text)
    await client.until("message.complete", session.id)


async def agree(gw, session):
    """Memory and store have the same history and the same number of events."""
    rows = await gw.store.history(session.id)
    assert [(r.seq, r.message) for r in session.journal.items] == [(r.seq, r.message) for r in rows]
    assert session.journal.count == len(rows)
    events = await gw.store.events(session.id, epoch=1, after_seq=0, limit=1000)
    assert session.journal.last_seq == len(events)
    return rows


async def leave(scope):
    await scope.close()
    await settle(50)


# --- acknowledged is stored -------------------------------------------------------------------


async def test_a_removed_prompt_is_stored_as_removed_before_the_answer(tmp_path):
    async with gateway(tmp_path, [{"gate": "g"}, {"text": "One."}]) as gw:
        client, _, session = await ready(gw)
        await client.call("prompt.submit", session_id=session.id, text="runs")
        waits = await client.call("prompt.submit", session_id=session.id, text="waits")
        gw.store.block()
        ref = {"session_id": session.id, "turn_id": waits["turn_id"]}
        removing = asyncio.ensure_future(client.call("prompt.queue.remove", **ref))
        await settle(50)
        assert not removing.done() and not session.queue
        gw.store.unblock()
        assert await removing == {"entries": []}
        assert (await gw.store.turns(session.id))[1].state == "refused"


# --- requesters that leave --------------------------------------------------------------------


async def test_a_title_whose_requester_left_takes_no_event_with_it(tmp_path):
    async with gateway(tmp_path, {"text": "One."}) as gw:
        client, scope, session = await ready(gw)
        other, _ = await gw.client()
        cursor = {"epoch": 1, "seq": 0}
        await other.call("session.attach", session_id=session.id, cursor=cursor)
        gw.store.block()
        asking = asyncio.ensure_future(
            client.call("session.title", session_id=session.id, title="named")
        )
        await settle(20)
        await leave(scope)
        gw.store.unblock()
        with suppress(Exception):
            await asking
        assert (await other.until("session.title")).seq == 1
        await said(other, session)
        await agree(gw, session)
        assert session.title == "named" == (await gw.store.session(session.id)).title


async def test_a_title_that_is_not_stored_is_not_kept(tmp_path):
    async with gateway(tmp_path) as gw:
        client, _, session = await ready(gw)
        gw.store.fail(FULL)
        with pytest.raises(StoreFull):
            await client.call("session.title", session_id=session.id, title="lost")
        assert (session.title, (await gw.store.session(session.id)).title) == ("", "")


@asynccontextmanager
async def with_profile(tmp_path):
    """A gateway with a second profile, whose store outlives every opening."""
    (tmp_path / "home" / "profiles" / "work").mkdir(parents=True)
    store = SlowStore()

    async def opened(name, _scope, base):
        return replace(base, store=store, profile=name)

    async with gateway(tmp_path) as gw:
        gw.open_profile = opened
        yield gw, store
    await store.aclose()


async def test_whoever_leaves_while_a_session_is_not_stored_keeps_no_profile_open(tmp_path):
    async with with_profile(tmp_path) as (gw, store):
        for steps in range(60):  # at every step of the way
            client, scope = await gw.client()
            store.fail(FULL)
            asking = asyncio.ensure_future(client.call("session.create", profile="work"))
            await settle(steps)
            await leave(scope)
            with suppress(Exception):
                await asking
            for session in gw.sessions.live():
                await gw.sessions.close(session, "test")
            await settle(50)
            assert not gw.sessions.live() and not gw.sessions.profiles._held, steps


async def test_the_reaper_forgets_what_is_over(tmp_path):
    async with gateway(tmp_path) as gw:
        client, scope, session = await ready(gw)
        await client.call("session.close", session_id=session.id)
        await settle(50)
        client, scope, session = await ready(gw)
        await leave(scope)
        assert list(gw.sessions.reaper._unattached) == [session.id]
        await gw.sessions.close(session, "test")
        await settle(50)
        assert not gw.sessions.reaper._unattached


async def test_a_session_that_closes_while_its_history_is_read_is_said_to_close(tmp_path):
    async with gateway(tmp_path) as gw:
        client, _, session = await ready(gw)
        other, _ = await gw.client()
        reading, plain = Gate(), gw.store.history

        async def slowly(session_id):
            await reading.park()
            return await plain(session_id)

        gw.store.history = slowly
        joining = asyncio.ensure_future(other.call("session.attach", session_id=session.id))
        await reading.wait_parked()
        await client.call("session.close", session_id=session.id)
        await client.until("session.closed")
        reading.release()
        with pytest.raises(SessionClosing, match="is being closed"):
            await joining
        await settle(50)
        assert not other._events


async def test_who_cannot_be_answered_does_not_listen(tmp_path):
    async with gateway(tmp_path, {"text": "One."}) as gw:
        client, _, session = await ready(gw)
        other, _ = await gw.client()

        async def history(_):
            raise FULL

        plain, gw.store.history = gw.store.history, history
        with pytest.raises(StoreFull):
            await other.call("session.attach", session_id=session.id)
        gw.store.history = plain
        assert len(session.attachments) == 1
        await said(client, session)
        assert not other._events
        await other.call("session.attach", session_id=session.id)
        await client.call("session.title", session_id=session.id, title="x")
        await other.until("session.title")


# --- starts that cannot be stored -------------------------------------------------------------


async def test_nothing_of_a_queued_turn_whose_start_failed_is_stored(tmp_path):
    async with gateway(tmp_path, [{"gate": "g"}, {"text": "One."}], {"text": "Two."}) as gw:
        client, _, session = await ready(gw)
        await client.call("prompt.submit", session_id=session.id, text="first")
        await client.call("prompt.submit", session_id=session.id, text="second")
        gw.store.fail(FULL, after=2)  # the answer and the end of the first go well
        gw.store.block_at_start = True  # the second one's answer is on its way before that is known
        gw.picker.script.gate("g").open()
        await settle(100)
        gw.store.unblock()
        states = [(await client.until("message.complete")).payload["state"] for _ in range(2)]
        assert states == ["completed", "failed"]
        await settle(100)
        assert [row.message.text for row in await agree(gw, session)] == ["first", "One."]


async def test_an_interrupted_prompt_that_was_not_stored_leaves_no_entry(tmp_path):
    async with gateway(tmp_path, [{"gate": "g"}, {"text": "One."}]) as gw:
        client, _, session = await ready(gw)
        gw.store.block()
        gw.store.fail(FULL)
        asking = asyncio.ensure_future(
            client.call("prompt.submit", session_id=session.id, text="lost")
        )
        await settle(50)
        session.interrupt("user")
        await settle(50)
        gw.store.unblock()
        with pytest.raises(StoreFull):
            await asking
        await settle(50)
        assert await agree(gw, session) == []
        assert (session.title, session.preview) == ("", "")


async def test_a_steered_prompt_that_was_not_stored_is_not_taken_in(tmp_path):
    tool = scripted_tool(gate=(gate := Gate()))
    async with gateway(tmp_path, [CALL], {"text": "Two."}, tools=(tool,)) as gw:
        client, _, session = await ready(gw)
        await client.call("prompt.submit", session_id=session.id, text="first")
        await gate.wait_parked()
        gw.store.block()
        gw.store.fail(FULL)
        wanted = {"session_id": session.id, "text": "lost", "when_busy": "steer"}
        asking = asyncio.ensure_future(client.call("prompt.submit", **wanted))
        await settle(20)
        assert session.queued == 1
        taken = session.queue.take_steered()
        assert taken and session.current and session.current.recorder
        settled = []
        commit = session.current.recorder.take_in(
            [(turn.id, turn.message) for turn in taken], settled.append
        )
        gw.store.unblock()
        with pytest.raises(LeaseLost):
            await commit
        with pytest.raises(StoreFull):
            await asking
        assert settled == [False]
        gate.release()
        await client.until("message.complete")
        rows = await agree(gw, session)
        assert "lost" not in [row.message.text for row in rows]


async def test_what_is_steered_into_a_turn_that_is_over_waits(tmp_path):
    tool = scripted_tool(gate=(gate := Gate()))
    async with gateway(tmp_path, [CALL], {"text": "Two."}, {"text": "3."}, tools=(tool,)) as gw:
        client, _, session = await ready(gw)
        await client.call("prompt.submit", session_id=session.id, text="first")
        await gate.wait_parked()
        await client.call("session.steer", session_id=session.id, text="steered")
        session.current.recorder.fence()
        assert take_steered(session, session.current) is None
        assert session.queued == 1, "it is taken out of the queue, and nobody has it"
        gate.release()
        for _ in range(2):
            await client.until("message.complete")
        assert [t.state for t in await gw.store.turns(session.id)] == ["failed", "completed"]


async def test_what_is_taken_in_is_stored_though_nobody_waits(tmp_path):
    tool = scripted_tool(gate=(gate := Gate()))
    async with gateway(tmp_path, [CALL], {"text": "Two."}, tools=(tool,)) as gw:
        client, _, session = await ready(gw)
        await client.call("prompt.submit", session_id=session.id, text="first")
        await gate.wait_parked()
        await client.call("session.steer", session_id=session.id, text="steered")
        (steered,) = session.queue
        storing = take_steered(session, session.current)
        assert storing is not None
        storing.close()  # a cancellation before its first step
        assert (await client.until("message.steered")).payload["text"] == "steered"
        assert steered.over.is_set()
        gate.release()
        await client.until("message.complete")
        states = [(t.state, t.cause) for t in await gw.store.turns(session.id)]
        assert states == [("completed", "stop"), ("completed", "steered")]


# --- going back -------------------------------------------------------------------------------


async def test_an_undo_that_is_interrupted_while_it_is_stored_is_whole(tmp_path):
    async with gateway(tmp_path, {"text": "One."}, {"text": "Two."}) as gw:
        client, _, session = await ready(gw)
        await said(client, session, "first")
        await said(client, session, "second")
        gw.store.block()
        asking = asyncio.ensure_future(client.call("session.undo", session_id=session.id))
        await settle(50)
        session.interrupt("user")
        await settle(50)
        gw.store.unblock()
        assert (await asking)["text"] == "second"
        rows = await agree(gw, session)
        assert [row.message.text for row in rows] == ["first", "One."]


async def test_a_commit_is_acted_on_though_its_waiter_never_began(tmp_path):
    async with gateway(tmp_path) as gw:
        _, _, session = await ready(gw)
        taken = []
        stored(session.journal.record([]), lambda: taken.append(1)).close()
        await settle(20)
        assert taken == [1]


async def test_what_runs_beside_a_rewind_that_takes_too_long_is_kept(tmp_path):
    async with gateway(tmp_path, {"text": "One."}, {"text": "Two."}, {"text": "3."}) as gw:
        client, _, session = await ready(gw)
        await said(client, session, "first")
        await said(client, session, "second")
        gw.store.block()
        asking = asyncio.ensure_future(client.call("session.undo", session_id=session.id))
        await settle(50)
        session.interrupt("user")
        await settle(50)
        gw.ports.clock.advance(5.1)  # it is left behind
        with pytest.raises(SessionBusy, match="look at the history"):
            await asking
        wanted = {"session_id": session.id, "text": "third"}
        asking = asyncio.ensure_future(client.call("prompt.submit", **wanted))
        await settle(50)
        gw.store.unblock()
        await asking
        await client.until("message.complete")
        rows = await agree(gw, session)
        assert [row.message.text for row in rows] == ["first", "One.", "third", "3."]


async def test_a_prompt_that_comes_during_an_undo_without_an_agent_builds_one(tmp_path):
    async with gateway(tmp_path, {"text": "One."}, {"text": "Two."}) as gw:
        client, _, session = await ready(gw)
        await said(client, session)
        gw.picker.failures["model"] = ModelError("No key.", provider="scripted")
        wanted = {"session_id": session.id, "key": "model", "value": "scripted:other"}
        await client.call("config.set", **wanted)
        await session.wait_built()
        assert session.build_error is not None
        gw.picker.failures.clear()
        gw.store.block()
        undoing = asyncio.ensure_future(client.call("session.undo", session_id=session.id))
        await settle(50)
        saying = asyncio.ensure_future(
            client.call("prompt.submit", session_id=session.id, text="two")
        )
        await settle(50)
        gw.store.unblock()
        assert (await undoing)["text"] == "one" and (await saying)["status"] == "queued"
        assert (await client.until("message.complete")).payload["text"] == "Two."


async def test_no_turn_is_named_by_nothing(tmp_path):
    async with gateway(tmp_path, {"text": "One."}) as gw:
        client, _, session = await ready(gw)
        await said(client, session)
        branch = (await client.call("session.branch", session_id=session.id))["session_id"]
        await client.until("session.info", branch)
        before = await gw.store.history(branch)
        with pytest.raises(NotFound):
            await client.call("prompt.edit", session_id=branch, turn_id="", text="x")
        assert await gw.store.history(branch) == before


async def test_a_branch_of_a_running_turn_has_a_result_for_every_call(tmp_path):
    tool = scripted_tool(gate=(gate := Gate()))
    async with gateway(tmp_path, [CALL], {"text": "Two."}, tools=(tool,)) as gw:
        client, _, session = await ready(gw)
        await client.call("prompt.submit", session_id=session.id, text="first")
        await gate.wait_parked()
        branch = (await client.call("session.branch", session_id=session.id))["session_id"]
        gate.release()
        last = (await gw.store.history(branch))[-1].message
        assert last.role == "tool" and "branched off while it ran" in last.text
        assert last.is_error and last.tool_call_id


# --- deleting ---------------------------------------------------------------------------------


async def test_a_session_that_is_opened_while_it_is_deleted_is_not_left_without_its_row(tmp_path):
    async with with_profile(tmp_path) as (gw, store):
        client, _ = await gw.client()
        sid = (await client.call("session.create", profile="work"))["session_id"]
        await client.call("session.close", session_id=sid)
        await settle(50)
        slow, using_ports = Gate(), gw.sessions.profiles.using_ports

        @asynccontextmanager
        async def slowly(name):
            gw.sessions.profiles.using_ports = using_ports  # the delete alone is slow
            async with using_ports(name) as found:
                await slow.park()
                yield found

        gw.sessions.profiles.using_ports = slowly
        ref = {"session_id": sid, "profile": "work"}
        deleting = asyncio.ensure_future(client.call("session.delete", **ref))
        await slow.wait_parked()
        await client.call("session.resume", **ref)
        slow.release()
        assert await deleting == {"deleted": sid}
        await settle(50)
        assert await store.session(sid) is None and gw.sessions.find(sid) is None


async def test_a_delete_whose_requester_leaves_is_whole(tmp_path):
    async with gateway(tmp_path) as gw:
        client, scope, session = await ready(gw)
        await client.call("session.close", session_id=session.id)
        await session.closing
        spilled = tmp_path / "home" / "spill" / session.id
        spilled.mkdir(parents=True)
        gw.store.block()
        deleting = asyncio.ensure_future(client.call("session.delete", session_id=session.id))
        await gw.store._gate.wait_parked()
        await scope.close()
        deleting.cancel()
        await settle(50)
        gw.store.unblock()
        await until(lambda: not spilled.exists())
        assert await gw.store.session(session.id) is None
