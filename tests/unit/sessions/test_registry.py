"""The way in and out: what meets an end, a limit or another opening of the same."""

from __future__ import annotations

import asyncio
import itertools
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from support.stores import SlowStore
from tenure.config import Config, LimitsConfig
from tenure.errors import Overloaded, SessionClosing, StoreFull
from tenure.models.script import Script
from tenure.protocol.methods import SessionCreate
from tenure.sessions import removing
from tenure.sessions.actor import Session
from tenure.sessions.removing import close_by_id
from tenure.store.base import ApprovalRow, InsertNote, InsertTurn, NoteRow, TurnRow
from tenure.testing.clock import settle
from tenure.testing.gates import Gate
from tenure.testing.gateway import open_test_gateway
from tenure.testing.store import MemoryStore
from tenure.testing.waiting import until

FULL = StoreFull("No space.")


@asynccontextmanager
async def gateway(tmp_path, *steps, **limits):
    config = Config(limits=LimitsConfig(**limits))
    async with open_test_gateway(
        tmp_path, Script(list(steps)), store=SlowStore(), config=config
    ) as gw:
        yield gw


async def ready(gw) -> Session:
    client, _ = await gw.client()
    return gw.sessions.get(await client.ready_session())


async def stored(gw) -> str:
    """A session that was closed; its id."""
    session = await ready(gw)
    await gw.sessions.close(session, "closed")
    await asyncio.shield(session.closing)
    return session.id


def task(coro):
    return asyncio.ensure_future(coro)


def created(gw, bound, **params):
    return task(gw.sessions.create(SessionCreate(**params), "/", bound.append))


# --- opening ------------------------------------------------------------------------------------


async def test_a_session_that_was_closed_while_it_was_stored_is_not_handed_out(tmp_path):
    async with gateway(tmp_path) as gw:
        disk, bound = gw.store.block(), []
        creating = created(gw, bound)
        await disk.wait_parked()
        (session,) = gw.sessions.live()
        gw.sessions.close_nowait(session, "closed", "user")
        gw.store.unblock()
        with pytest.raises(SessionClosing):
            await creating
        assert bound == []


async def test_a_profile_that_was_opened_during_the_end_is_given_back(tmp_path):
    async with gateway(tmp_path) as gw:
        (tmp_path / "home" / "profiles" / "p").mkdir(parents=True)
        gate, opened = Gate(), []

        async def slowly(name, scope, base):
            await gate.park()
            store = scope.own("store", MemoryStore(), lambda s: s.aclose()).value
            opened.append(name)
            return replace(base, store=store, profile=name)

        gw.open_profile = slowly
        bound: list[Session] = []
        creating = created(gw, bound, profile="p")
        await gate.wait_parked()
        draining = task(gw.sessions.drain("stop", 5.0))
        await settle()
        gate.release()
        with pytest.raises(SessionClosing):
            await creating
        assert await draining and bound == [] and opened == ["p"]
        assert gw.ports.profiles.live("p") == 0


async def test_a_lazy_resume_builds_nothing(tmp_path):
    async with gateway(tmp_path) as gw:
        sid = await stored(gw)
        client, _ = await gw.client()
        await client.call("session.attach", session_id=sid, lazy=True)
        session = gw.sessions.get(sid)
        assert session.unbuilt and gw.sessions.opening(sid) is None
        picks = gw.picker.picks
        await client.call("session.resume", session_id=sid)
        await session.wait_built()
        await client.call("session.resume", session_id=sid)
        assert gw.picker.picks == picks + 1


async def test_an_opening_that_is_cancelled_before_its_first_step_is_over(tmp_path):
    async with gateway(tmp_path) as gw:
        sid = await stored(gw)
        opening = gw.sessions._opening_of(sid, "default")
        (opens,) = [one for one in asyncio.all_tasks() if one.get_name() == f"open {sid}"]
        opens.cancel()
        await settle()
        assert opening.session.done() and gw.sessions.opening(sid) is None
        assert isinstance(opening.session.exception(), SessionClosing)


async def test_all_who_open_one_session_wait_for_one_opening(tmp_path):
    async with gateway(tmp_path) as gw:
        sid = await stored(gw)
        first, second = (gw.sessions._opening_of(sid, "default") for _ in range(2))
        assert first is second
        assert (await asyncio.shield(first.session)).id == sid


async def test_what_was_allowed_and_what_the_model_is_to_be_told_come_back(tmp_path):
    async with gateway(tmp_path) as gw:
        sid = await stored(gw)
        note = NoteRow("n1", sid, "", "It has ended.", 0.0)
        await gw.store.write(InsertNote(note))
        allowed, read = ApprovalRow("q1", sid, "t", {}, "answered", "session"), gw.store.questions

        async def questions(session_id: str, **which: str):
            return [allowed] if which == {"decision": "session"} else await read(session_id)

        gw.store.questions = questions
        client, _ = await gw.client()
        await client.call("session.resume", session_id=sid)
        session = gw.sessions.get(sid)
        assert (list(session.questions.granted), session.notes._waiting) == (["q1"], [note])


async def test_what_is_opened_for_its_queue_may_go_when_room_is_needed(tmp_path):
    async with gateway(tmp_path, {"gate": "g"}) as gw:
        sid = await stored(gw)
        await gw.store.write(InsertTurn(TurnRow("t9", sid, 9, "queued", "waits", 0.0)))
        await gw.sessions.recover(sid, "default")
        await settle()
        assert gw.sessions.get(sid).working
        assert list(gw.sessions.reaper._unattached) == [sid]


async def test_what_nobody_uses_makes_room_for_what_is_opened(tmp_path):
    async with gateway(tmp_path, loaded_max=1) as gw:
        client, _ = await gw.client()
        left = await client.ready_session()
        await client.call("session.detach", session_id=left)
        new = await client.ready_session()
        await until(lambda: gw.sessions.find(left) is None)
        assert [session.id for session in gw.sessions.live()] == [new]


async def test_what_is_being_opened_counts(tmp_path):
    async with gateway(tmp_path, sessions_max=1) as gw:
        sid = await stored(gw)
        disk = gw.store.block()
        opening = gw.sessions._opening_of(sid, "default")
        await disk.wait_parked()
        creating = created(gw, [])
        await settle()
        gw.store.unblock()
        await asyncio.shield(opening.session)
        with pytest.raises(Overloaded, match="limit"):
            await creating


# --- ending -------------------------------------------------------------------------------------


async def test_a_turn_that_is_cut_knows_at_once_who_cut_it(tmp_path):
    async with gateway(tmp_path, [{"gate": "g"}, {"text": "x"}]) as gw:
        session = await ready(gw)
        await session.submit("hi")
        turn = session.current
        gw.sessions.close_nowait(session, "closed", "user")
        assert turn.cause == "user"
        await settle()
        assert session.closing.done()


async def test_a_closing_that_cannot_begin_is_over(tmp_path):
    async with gateway(tmp_path) as gw:
        session = await ready(gw)
        gw.sessions.scope.claim("everything ends")
        gw.sessions.close_nowait(session, "closed", "user")
        assert session.closing.done() and gw.sessions.live() == []


async def test_a_closing_that_breaks_is_answered(tmp_path, monkeypatch):
    async with gateway(tmp_path) as gw:
        session = await ready(gw)
        monkeypatch.setattr("tenure.sessions.registry.end_session", _breaks)
        closing = task(gw.sessions.close(session, "closed"))
        await settle()
        assert closing.done()


async def _breaks(*_):
    raise ZeroDivisionError("a fault of ours")


async def test_the_end_of_an_older_incarnation_leaves_the_newer_one(tmp_path):
    async with gateway(tmp_path) as gw:
        older = await ready(gw)
        newer = gw.sessions._live[older.id] = object()
        gw.sessions._over(older)
        found = gw.sessions.find(older.id)
        gw.sessions._live[older.id] = older
        gw.sessions.close_nowait(older, "closed", "user")
        assert found is newer


# --- draining -----------------------------------------------------------------------------------


async def test_a_drain_closes_all_at_once_within_its_time_and_admits_nothing(tmp_path):
    async with gateway(tmp_path) as gw:
        sessions, gate = [await ready(gw) for _ in range(2)], Gate()
        for session in sessions:
            session.scope.own("thing", "slow", lambda _: gate.park())
        draining = task(gw.sessions.drain("stop", 3.0))
        await gate.wait_parked()
        await settle()
        parked = gate.parked
        creating = created(gw, [])
        await settle()
        gw.ports.clock.advance(3)
        await settle()
        ended = draining.done()
        gate.release()
        assert (parked, ended, creating.done()) == (2, True, True)
        assert isinstance(creating.exception(), SessionClosing)
        assert not draining.result(), "not all were closed"


@pytest.mark.parametrize("error", [None, FULL])
async def test_a_drain_waits_for_what_is_being_opened_however_that_ends(tmp_path, error):
    async with gateway(tmp_path) as gw:
        sid = await stored(gw)
        disk = gw.store.block()
        if error is not None:
            gw.store.fail(error)
        opening = gw.sessions._opening_of(sid, "default")
        await disk.wait_parked()
        draining = task(gw.sessions.drain("stop", 3.0))
        await settle()
        early = draining.done()
        gw.store.unblock()
        assert not early
        assert await draining
        assert opening.session.done() and gw.sessions.live() == []


# --- by its id ----------------------------------------------------------------------------------


async def test_what_is_opened_while_it_is_looked_for_is_closed(tmp_path, monkeypatch):
    async with gateway(tmp_path) as gw:
        sid = await stored(gw)

        async def opened_meanwhile(sessions, session_id, *_):
            sessions._opening_of(session_id, "default")
            return False

        monkeypatch.setattr(removing, "end_unloaded", opened_meanwhile)
        assert await close_by_id(gw.sessions, sid, "default", "closed")
        await gw.sessions.wait_stored()
        assert gw.sessions.live() == []


async def test_what_is_opened_while_a_delete_reads_which_files_it_has_goes_too(
    tmp_path, monkeypatch
):
    async with gateway(tmp_path) as gw:
        sid = await stored(gw)
        client, _ = await gw.client()
        gate, read = Gate(), gw.store.uploads

        async def slowly(session_id=""):
            found = await read(session_id)
            await gate.park()
            return found

        monkeypatch.setattr(gw.store, "uploads", slowly)
        deleting = task(gw.sessions.delete(sid))
        await gate.wait_parked()
        await client.call("session.resume", session_id=sid, lazy=True)
        gate.release()
        assert await deleting
        assert gw.sessions.live() == [] and await gw.store.session(sid) is None


@pytest.mark.parametrize("error", [None, FULL])
async def test_a_delete_waits_for_the_opening_however_that_ends(tmp_path, error, monkeypatch):
    async with gateway(tmp_path) as gw:
        looks, look = itertools.count(), gw.sessions.opening

        def opening(session_id):
            assert next(looks) < 100, "who does not wait looks for ever"
            return look(session_id)

        monkeypatch.setattr(gw.sessions, "opening", opening)
        sid = await stored(gw)
        disk = gw.store.block()
        if error is not None:
            gw.store.fail(error)
        gw.sessions._opening_of(sid, "default")
        await disk.wait_parked()
        deleting = task(gw.sessions.delete(sid))
        await settle()
        gw.store.unblock()
        assert await deleting
        assert await gw.store.session(sid) is None
