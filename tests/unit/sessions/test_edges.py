"""The instants between two steps: who is told, who is left, what is stored."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress

import pytest

from tenure.config import ApprovalRule
from tenure.errors import (
    AlreadyDecided,
    NotFound,
    SessionClosing,
    StoreError,
    StoreFull,
    TenureError,
)
from tenure.models.script import Script
from tenure.sessions.attachments import Attachments, Role
from tenure.sessions.grants import Grants
from tenure.store import base as b
from tenure.testing.clock import ManualClock, settle
from tenure.testing.gates import Gate
from tenure.testing.gateway import open_test_gateway
from tenure.testing.store import MemoryStore
from tenure.testing.tools import scripted_tool
from tenure.tools.base import Effect

CALL = {"call": {"name": "probe", "arguments": {"text": "it"}}}


@asynccontextmanager
async def gateway(tmp_path, *steps, **more):
    tool = scripted_tool(effect=Effect.WRITE, **more.pop("tool", {}))
    async with open_test_gateway(
        tmp_path, Script(list(steps)), tools=lambda _c, _s: (tool,), **more
    ) as gw:
        gw.tool = tool
        yield gw


async def asked(gw):
    """A client whose session waits for an answer."""
    client, scope = await gw.client()
    sid = await client.ready_session()
    await client.call("prompt.submit", session_id=sid, text="do it")
    await client.until("approval.request")
    return client, scope, gw.sessions.get(sid)


def approvals(gw):
    return [row["decision"] for row in gw.store._rows.approvals.values()]


# --- turns ------------------------------------------------------------------------------------


async def test_an_interrupt_before_the_first_step_of_a_turn_ends_it(tmp_path):
    async with gateway(tmp_path, {"text": "no"}, {"text": "yes"}) as gw:
        client, _ = await gw.client()
        sid = await client.ready_session()
        session = gw.sessions.get(sid)
        submitted = session.submit("now")
        submitted.send(None)  # up to its first wait: the turn's task has not run
        turn = session.current
        assert session.interrupt("user")
        await settle()
        assert turn.over.is_set() and not turn.scope.admits
        done = await client.until("message.complete", sid)
        assert (done.payload["state"], done.payload["cause"]) == ("interrupted", "user")
        submitted.close()
        await client.call("prompt.submit", session_id=sid, text="again")
        assert (await client.until("message.complete")).payload["state"] == "completed"


async def test_a_queued_prompt_that_turns_out_not_to_be_stored_leaves_no_trace(tmp_path):
    store = MemoryStore()
    steps = [[{"gate": "g"}, {"text": "one"}], {"text": "two"}]
    async with gateway(tmp_path, *steps, store=store) as gw:
        client, _ = await gw.client()
        sid = await client.ready_session()
        session = gw.sessions.get(sid)
        await client.call("prompt.submit", session_id=sid, text="first")
        disk = store._gate = Gate()
        store.fail(StoreFull("No space."))
        lost = gw.root.spawn(client.call("prompt.submit", session_id=sid, text="lost"), name="s")
        await disk.wait_parked()
        session.interrupt()
        await settle()
        assert session.current.prompt == "lost", "it runs before its commit is known"
        disk.release()
        with pytest.raises(StoreFull):
            await lost.value
        await client.until("message.complete", sid)
        await settle()
        assert [t.prompt for t in await store.turns(sid)] == ["first"]
        assert [i.message.text for i in await store.history(sid)] == ["first"]
        events = [e.type for e in await store.events(sid, epoch=1, after_seq=0, limit=99)]
        assert events.count("message.start") == 1 and session.status == "idle"


async def test_a_refused_prompts_answer_is_not_stored(tmp_path):
    store = MemoryStore()
    async with gateway(tmp_path, {"text": "quick"}, store=store) as gw:
        client, _ = await gw.client()
        sid = await client.ready_session()
        disk = store._gate = Gate()
        store.fail(StoreFull("No space."))
        lost = gw.root.spawn(client.call("prompt.submit", session_id=sid, text="lost"), name="s")
        await disk.wait_parked()
        await settle(60)  # the answer waits behind the prompt in the same line
        disk.release()
        with pytest.raises(StoreFull):
            await lost.value
        await settle()
        assert await store.history(sid) == [] == gw.sessions.get(sid).journal.items


async def test_an_end_that_the_store_refused_is_stored_when_it_works_again(tmp_path):
    store = MemoryStore()
    async with gateway(tmp_path, [{"gate": "g"}, {"text": "x"}], store=store) as gw:
        client, _ = await gw.client()
        sid = await client.ready_session()
        await client.call("prompt.submit", session_id=sid, text="one")
        store.fail(StoreFull("No space."), after=1)  # the answer is stored, the end is not
        gw.picker.script.gate("g").open()
        await settle(60)
        assert [t.state for t in await store.turns(sid)] == ["running"]
        gw.ports.clock.advance(1.1)
        done = await client.until("message.complete", sid)
        assert done.payload["state"] == "completed"
        assert [t.state for t in await store.turns(sid)] == ["completed"]
        assert gw.ports.clock.pending == 1  # the reaper


async def test_a_closed_session_has_no_open_row_whatever_failed(tmp_path):
    store = MemoryStore()
    async with gateway(tmp_path, [{"gate": "g"}, {"text": "x"}], store=store) as gw:
        client, _ = await gw.client()
        sid = await client.ready_session()
        await client.call("prompt.submit", session_id=sid, text="one")
        real = store.write

        def failing(*ops):
            if any(isinstance(op, b.PatchTurn) for op in ops):
                future = asyncio.get_running_loop().create_future()
                future.set_exception(StoreFull("No space."))
                return future
            return real(*ops)

        store.write = failing
        await client.call("session.close", session_id=sid)
        row = await store.session(sid)
        (turn,) = await store.turns(sid)
        assert (row.status, turn.state, turn.cause) == ("closed", "interrupted", "client")


async def test_a_turn_cut_by_a_close_says_who_closed(tmp_path):
    async with gateway(tmp_path, CALL, {"text": "x"}, tool={"gate": Gate()}) as gw:
        _, _, session = await asked(gw)
        (question,) = session.questions._open.values()
        question.answer.set_result("once")  # so that the turn's next step meets the claim
        gw.sessions.close_nowait(session, "closed by a client", "client")
        await ended(gw, session.id)
        (turn,) = await gw.store.turns(session.id)
        assert (turn.state, turn.cause) == ("interrupted", "client")


async def test_a_queued_prompt_whose_start_is_not_stored_is_told_its_end(tmp_path):
    store = MemoryStore()
    steps = [[{"gate": "g"}, {"text": "one"}], {"text": "two"}]
    async with gateway(tmp_path, *steps, store=store) as gw:
        client, _ = await gw.client()
        sid = await client.ready_session()
        await client.call("prompt.submit", session_id=sid, text="first")
        accepted = await client.call("prompt.submit", session_id=sid, text="second")
        store.fail(StoreFull("No space."), after=2)  # the answer, the end, then the start
        gw.picker.script.gate("g").open()
        await client.until("message.complete", sid)
        done = await client.until("message.complete", sid)
        assert done.payload["turn_id"] == accepted["turn_id"]
        assert (done.payload["state"], done.payload["cause"]) == ("failed", "store")
        assert [t.state for t in await store.turns(sid)] == ["completed", "failed"]
        assert [i.message.text for i in await store.history(sid)] == ["first", "one"]


async def test_turns_are_numbered_on_after_a_gap(tmp_path):
    store = MemoryStore()
    async with gateway(tmp_path, {"text": "a"}, {"text": "b"}, {"text": "c"}, store=store) as gw:
        client, _ = await gw.client()
        sid = await client.ready_session()
        store.fail(StoreFull("No space."))
        with pytest.raises(StoreFull):
            await client.call("prompt.submit", session_id=sid, text="never stored")
        await client.call("prompt.submit", session_id=sid, text="stored")
        await client.until("message.complete", sid)
        await client.call("session.close", session_id=sid)
        await client.call("session.resume", session_id=sid)
        await client.call("prompt.submit", session_id=sid, text="resumed")
        await client.until("message.complete", sid)
        assert [t.ordinal for t in await store.turns(sid)] == [2, 3]


async def test_opening_a_session_again_ends_what_its_last_write_could_not(tmp_path):
    store = MemoryStore()
    async with gateway(tmp_path, [{"gate": "g"}, {"text": "x"}], store=store) as gw:
        client, _ = await gw.client()
        sid = await client.ready_session()
        await client.call("prompt.submit", session_id=sid, text="one")
        real = store.write

        def failing(*ops):
            future = asyncio.get_running_loop().create_future()
            future.set_exception(StoreFull("No space."))
            return future

        store.write = failing
        await client.call("session.close", session_id=sid)
        store.write = real
        assert [t.state for t in await store.turns(sid)] == ["running"]
        await client.call("session.resume", session_id=sid)
        assert [(t.state, t.cause) for t in await store.turns(sid)] == [("interrupted", "crash")]


async def test_text_that_waited_in_line_belongs_to_its_own_turn(tmp_path):
    store = MemoryStore()
    old = [{"text": "old"}, {"gate": "f"}, {"text": "older"}, {"gate": "g"}]
    steps = [old, [{"gate": "h"}, {"text": "new"}]]
    async with gateway(tmp_path, *steps, store=store) as gw:
        client, _ = await gw.client()
        sid = await client.ready_session()
        session = gw.sessions.get(sid)
        await client.call("prompt.submit", session_id=sid, text="one")
        await gw.picker.script.gate("f").wait_reached()
        disk = store._gate = Gate()
        gw.root.spawn(client.call("prompt.submit", session_id=sid, text="two"), name="s")
        await settle(40)
        gw.picker.script.gate("f").open()
        await gw.picker.script.gate("g").wait_reached()
        await settle(40)
        session.abandon(session.current, "user")  # its text still waits behind the second prompt
        await settle(40)
        disk.release()
        await gw.picker.script.gate("h").wait_reached()
        await settle(40)
        assert session.inflight() == {"user": "two", "assistant": "", "streaming": True}


# --- questions --------------------------------------------------------------------------------


async def test_a_question_that_cannot_be_stored_is_not_left_open(tmp_path):
    store = MemoryStore()
    async with gateway(tmp_path, [{"gate": "g"}, CALL], {"text": "x"}, CALL, store=store) as gw:
        client, _ = await gw.client()
        sid = await client.ready_session()
        await client.call("prompt.submit", session_id=sid, text="do it")
        store.fail(StoreFull("No space."), after=2)  # after the answer and the call's start
        gw.picker.script.gate("g").open()
        done = await client.until("message.complete", sid)
        assert (done.payload["state"], done.payload["cause"]) == ("failed", "store")
        session = gw.sessions.get(sid)
        assert session.questions.shown is None and approvals(gw) == []
        await client.call("prompt.submit", session_id=sid, text="again")
        await client.until("message.complete")
        await client.call("prompt.submit", session_id=sid, text="ask")
        assert (await client.until("approval.request")).payload["turn_id"]
        await client.call("session.interrupt", session_id=sid)


async def test_an_interrupt_while_the_question_is_being_stored_voids_it(tmp_path):
    store = MemoryStore()
    async with gateway(tmp_path, [{"gate": "g"}, CALL], {"text": "x"}, store=store) as gw:
        client, _ = await gw.client()
        sid = await client.ready_session()
        await client.call("prompt.submit", session_id=sid, text="do it")
        session = gw.sessions.get(sid)
        real, disk = store.write, Gate()

        def write(*ops):
            if any(isinstance(op, b.InsertApproval) for op in ops):
                store._gate = disk
            return real(*ops)

        store.write = write
        gw.picker.script.gate("g").open()
        await disk.wait_parked()
        await settle()
        session.interrupt()
        await settle()
        disk.release()
        await client.until("message.complete", sid)
        assert session.questions.shown is None and session.status == "idle"
        assert approvals(gw) == ["void (turn ended)"]


async def test_a_question_that_could_not_be_voided_is_voided_later(tmp_path):
    store = MemoryStore()
    async with gateway(tmp_path, CALL, {"text": "x"}, store=store) as gw:
        client, _, session = await asked(gw)
        store.fail(StoreFull("No space."))
        session.interrupt()
        await client.until("message.complete", session.id)
        assert approvals(gw) == [""]
        gw.ports.clock.advance(1.1)
        await client.until("approval.expire", session.id)
        assert approvals(gw) == ["void (turn ended)"]


async def test_an_answer_counts_though_its_giver_left_during_the_commit(tmp_path):
    store = MemoryStore()
    async with gateway(tmp_path, CALL, {"text": "done"}, store=store) as gw:
        client, _, session = await asked(gw)
        other, other_scope = await gw.client()
        disk = store._gate = Gate()
        answer = other.call("approval.respond", session_id=session.id, choice="once")
        gw.root.spawn(_quietly(answer), name="answer")
        await disk.wait_parked()
        await other_scope.close()
        await settle()
        disk.release()
        done = await client.until("message.complete", session.id)
        assert done.payload["state"] == "completed" and gw.tool.effects == ["it"]
        assert approvals(gw) == ["once"] and session.questions.shown is None


async def _quietly(call):
    with suppress(TenureError):
        await call


async def test_of_two_answers_at_one_moment_one_counts(tmp_path):
    store = MemoryStore()
    async with gateway(tmp_path, CALL, {"text": "done"}, store=store) as gw:
        client, _, session = await asked(gw)
        disk = store._gate = Gate()
        answers = [
            gw.root.spawn(session.questions.respond("", c, everything=False), name="a").value
            for c in ("deny", "once")
        ]
        await disk.wait_parked()
        disk.release()
        await asyncio.wait(answers)
        assert answers[0].result() == 1
        assert isinstance(answers[1].exception(), AlreadyDecided)
        await client.until("message.complete", session.id)
        assert gw.tool.effects == [] and approvals(gw) == ["deny"]


async def test_an_answer_in_the_moment_of_the_timeout_counts(tmp_path):
    store = MemoryStore()
    async with gateway(tmp_path, CALL, {"text": "done"}, store=store) as gw:
        client, _, session = await asked(gw)
        disk = store._gate = Gate()
        answer = gw.root.spawn(session.questions.respond("", "once", everything=False), name="a")
        await disk.wait_parked()
        gw.ports.clock.advance(100_000)
        await settle()
        disk.release()
        assert await answer.value == 1
        done = await client.until("message.complete", session.id)
        assert done.payload["state"] == "completed" and gw.tool.effects == ["it"]


async def test_a_late_answer_to_a_turn_that_was_interrupted_is_refused(tmp_path):
    async with gateway(tmp_path, CALL, {"text": "done"}) as gw:
        client, _, session = await asked(gw)
        request = session.questions.shown.request_id
        await client.call("session.interrupt", session_id=session.id)
        await client.call("session.interrupt", session_id=session.id)
        await client.until("message.complete", session.id)
        with pytest.raises(AlreadyDecided):
            await client.call(
                "approval.respond", session_id=session.id, choice="once", request_id=request
            )
        assert approvals(gw) == ["void (turn ended)"] and gw.tool.effects == []


async def test_a_grant_that_cannot_be_written_still_answers(tmp_path):
    (tmp_path / "grants.part").mkdir()
    async with gateway(tmp_path, CALL, {"text": "done"}) as gw:
        client, _, session = await asked(gw)
        with pytest.raises(StoreError, match=r"grants\.json"):
            await client.call("approval.respond", session_id=session.id, choice="always")
        done = await client.until("message.complete", session.id)
        assert done.payload["state"] == "completed" and gw.tool.effects == ["it"]


async def test_grants_that_are_added_at_one_moment_are_all_written(tmp_path):
    path = tmp_path / "grants.json"
    grants = Grants(path)
    rules = [ApprovalRule("allow", "shell", f"cmd{n} *") for n in range(20)]
    for written in [grants.add((rule,)) for rule in rules]:
        await written
    assert Grants.load(path).rules == tuple(rules)


async def ended(gw, sid):
    """When the session is being closed: wait for its end (threads take their own time)."""
    async with asyncio.timeout(30):
        while (session := gw.sessions._live.get(sid)) is not None:
            if session.closing is None:
                await asyncio.sleep(0)
            else:
                await asyncio.shield(session.closing)


# --- sessions ---------------------------------------------------------------------------------


async def test_a_session_whose_requester_left_before_it_was_stored_is_closed(tmp_path):
    store = MemoryStore()
    async with gateway(tmp_path, store=store) as gw:
        client, scope = await gw.client()
        disk = store._gate = Gate()
        gw.root.spawn(_quietly(client.call("session.create")), name="create")
        await disk.wait_parked()
        await scope.close()
        await settle()
        (session,) = gw.sessions.live()
        disk.release()
        await ended(gw, session.id)
        assert gw.sessions.live() == [] and gw.picker.opened == []
        (row,) = await store.sessions(limit=9)
        assert (row.status, row.reason) == ("closed", "the client left")


async def test_a_session_opened_for_requesters_who_have_all_left_is_closed_again(tmp_path):
    store = MemoryStore()
    async with gateway(tmp_path, store=store) as gw:
        client, _ = await gw.client()
        sid = await client.ready_session()
        await client.call("session.close", session_id=sid)
        for stay in (False, True):
            disk = store._gate = Gate()
            (a, a_scope), (other, other_scope) = await gw.client(), await gw.client()
            for c in (a, other):
                gw.root.spawn(_quietly(c.call("session.resume", session_id=sid)), name="resume")
            await disk.wait_parked()
            await a_scope.close()
            if not stay:
                await other_scope.close()
            await settle()
            disk.release()
            await settle(60)
            if not stay:
                await ended(gw, sid)
            assert [s.id for s in gw.sessions.live()] == ([sid] if stay else [])


async def test_two_clients_that_leave_at_one_moment_do_not_leave_the_session_to_each_other(root):
    attachments, scopes = (
        Attachments(ManualClock()),
        [root.child("connection"), root.child("connection")],
    )
    first, second = (
        attachments.attach(object(), scope, "s", close_on_disconnect=True).value for scope in scopes
    )
    assert not attachments.left_by(first)
    scopes[0].claim("disconnected")  # its end takes a while; its binding is still there
    assert attachments.left_by(second)


async def test_a_viewer_neither_ends_a_session_nor_keeps_it_from_ending(root):
    attachments, scope = Attachments(ManualClock()), root.child("connection")
    owner = attachments.attach(object(), scope, "s", close_on_disconnect=True).value
    viewer = attachments.attach(
        object(), scope, "s", role=Role.VIEWER, close_on_disconnect=True
    ).value
    assert not attachments.left_by(viewer)
    assert attachments.left_by(owner)
    assert attachments.detach(owner.listener, owner.epoch)
    assert not attachments.left_by(owner), "it has left already"


async def test_a_late_detach_does_not_end_a_newer_attachment(root):
    attachments, scope, listener = Attachments(ManualClock()), root.child("connection"), object()
    old = attachments.attach(listener, scope, "s").value.epoch
    assert attachments.detach(listener)
    new = attachments.attach(listener, scope, "s").value.epoch
    assert new != old
    assert not attachments.detach(listener, old)
    assert len(attachments) == 1
    assert attachments.detach(listener, new)
    assert not attachments.detach(listener)


async def test_looking_at_a_session_again_does_not_change_what_the_disconnect_does(tmp_path):
    async with gateway(tmp_path) as gw:
        client, scope = await gw.client()
        sid = await client.ready_session(close_on_disconnect=True)
        await client.call("session.activate", session_id=sid)
        await scope.close()
        await ended(gw, sid)
        assert gw.sessions.live() == []


async def test_a_resume_that_meets_a_delete_finds_nothing(tmp_path):
    store = MemoryStore()
    async with gateway(tmp_path, store=store) as gw:
        client, _ = await gw.client()
        sid = await client.ready_session()
        await client.call("session.close", session_id=sid)
        disk = store._gate = Gate()
        deleted = gw.root.spawn(client.call("session.delete", session_id=sid), name="delete").value
        await disk.wait_parked()
        resumed = gw.root.spawn(client.call("session.resume", session_id=sid), name="resume").value
        await settle()
        disk.release()
        assert await deleted == {"deleted": sid}
        await asyncio.wait({resumed})
        assert isinstance(resumed.exception(), NotFound)
        assert gw.sessions.live() == []


async def test_a_delete_that_meets_a_resume_ends_what_it_opened(tmp_path):
    store = MemoryStore()
    async with gateway(tmp_path, store=store) as gw:
        client, _ = await gw.client()
        sid = await client.ready_session()
        await client.call("session.close", session_id=sid)
        disk = store._gate = Gate()
        resumed = gw.root.spawn(
            _quietly(client.call("session.resume", session_id=sid)), name="resume"
        ).value
        await disk.wait_parked()
        deleted = gw.root.spawn(client.call("session.delete", session_id=sid), name="delete").value
        await settle()
        disk.release()
        assert await deleted == {"deleted": sid}
        await asyncio.wait({resumed})
        await settle()
        assert gw.sessions.live() == [] and await store.session(sid) is None


async def test_an_opening_that_breaks_is_told_and_not_left_open(tmp_path):
    store = MemoryStore()
    async with gateway(tmp_path, store=store) as gw:
        client, _ = await gw.client()
        sid = await client.ready_session()
        await client.call("session.close", session_id=sid)

        async def broken(_session_id):
            raise ValueError("a row of another form")

        store.history, real = broken, store.history
        with pytest.raises(Exception, match="cannot be opened"):
            async with asyncio.timeout(30):
                await client.call("session.resume", session_id=sid)
        await settle()
        assert (await store.session(sid)).status == "closed"
        store.history = real
        assert (await client.call("session.resume", session_id=sid))["session_id"] == sid


async def test_a_drain_opens_nothing_more_and_closes_what_is_being_opened(tmp_path):
    store = MemoryStore()
    async with gateway(tmp_path, store=store) as gw:
        client, _ = await gw.client()
        sid = await client.ready_session()
        await client.call("session.close", session_id=sid)
        disk = store._gate = Gate()
        resumed = gw.root.spawn(
            _quietly(client.call("session.resume", session_id=sid)), name="resume"
        ).value
        await disk.wait_parked()
        drained = gw.root.spawn(gw.sessions.drain("the end", 5.0), name="drain").value
        await settle()
        with pytest.raises(SessionClosing, match="ending"):
            await client.call("session.create")
        disk.release()
        await asyncio.wait({resumed, drained})
        row = await store.session(sid)
        assert (row.status, row.reason) == ("closed", "the end")
        assert gw.sessions.live() == []


async def test_a_connection_ends_cleanly_though_everything_is_claimed(tmp_path):
    async with gateway(tmp_path) as gw:
        client, scope = await gw.client()
        await client.ready_session(close_on_disconnect=True)
        gw.root.claim("no drain")
        await scope.close()
        await settle(40)
        report = await gw.root.close()
        assert report.clean, report.failures
        assert gw.root.census() == []


async def test_a_stop_before_the_first_step_of_a_build_keeps_what_waits(tmp_path):
    async with gateway(tmp_path) as gw:
        client, _ = await gw.client()
        sid = await client.ready_session()
        await client.call("session.close", session_id=sid)
        await client.call("session.attach", session_id=sid, lazy=True)
        session = gw.sessions.get(sid)
        gw.root.spawn(session.submit("later"), name="submit")
        while not session.queued:
            await asyncio.sleep(0)
        gw.sessions.close_nowait(session, "stopped", "shutdown")
        await asyncio.shield(session.closing)
        (turn,) = await gw.store.turns(sid)
        assert turn.state == "queued"
