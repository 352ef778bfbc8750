"""What waits, and the receipts of what came: one prompt, one key, one answer."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from tenure.errors import AlreadyRuns, Conflict, SessionClosing, StoreFull
from tenure.models.script import Script
from tenure.sessions import prompts
from tenure.sessions.prompts import Accepted, PromptQueue, Receipts, body_of, policy_of
from tenure.sessions.turns import LiveTurn
from tenure.store.base import TurnRow
from tenure.testing.clock import settle
from tenure.testing.gates import Gate
from tenure.testing.gateway import open_test_gateway


def turns(*names: str) -> list[LiveTurn]:
    return [LiveTurn(name, 1, name, 0.0) for name in names]


def queue_of(*names: str) -> PromptQueue:
    queue = PromptQueue()
    for turn in turns(*names):
        queue.append(turn)
    return queue


def ids(queue: PromptQueue) -> list[str]:
    return [turn.id for turn in queue]


# --- the queue ----------------------------------------------------------------------------------


def test_what_is_left_for_the_next_start_is_over_here():
    queue = queue_of("a", "b")
    left = list(queue)
    assert queue.leave() == 2
    assert all(turn.ended and turn.over.is_set() for turn in left)
    assert len(queue) == 0


def test_what_is_steered_leaves_the_queue():
    queue = queue_of("a", "b", "c")
    queue.find("b").steered = True
    assert [turn.id for turn in queue.take_steered()] == ["b"]
    assert ids(queue) == ["a", "c"]


def test_only_what_waits_is_found_and_removed():
    queue = queue_of("a", "b")
    b = queue.find("b")
    assert b.id == "b"
    assert queue.remove(b)
    assert not queue.remove(b)
    with pytest.raises(AlreadyRuns, match="does not wait"):
        queue.find("b")
    queue.prepend(turns("first", "second"))
    assert ids(queue) == ["first", "second", "a"]


# --- receipts -----------------------------------------------------------------------------------


class Rows:
    """The stored prompts by key; a look at them may take its time."""

    def __init__(self, *rows: TurnRow) -> None:
        self.rows = {row.key: row for row in rows}
        self.gate: Gate | None = None

    async def turn_by_key(self, _session_id: str, key: str) -> TurnRow | None:
        if self.gate is not None:
            await self.gate.park()
        return self.rows.get(key)


def receipts_over(rows: Rows) -> Receipts:
    return Receipts(SimpleNamespace(id="s1", ports=SimpleNamespace(store=rows)))


def commit() -> asyncio.Future[list[object]]:
    return asyncio.get_running_loop().create_future()


def stored(key: str, text: str) -> TurnRow:
    return TurnRow("t0", "s1", 1, "completed", text, 0.0, key=key, body=body_of(text))


async def test_a_key_stands_for_one_prompt_in_memory_and_in_the_store():
    receipts = receipts_over(Rows(stored("old", "hello")))
    assert (await receipts.known("old", "hello")).turn_id == "t0"
    receipts.keep("new", body_of("hello"), Accepted("t1", "streaming"), done := commit())
    done.set_result([])
    assert await receipts.known("new", "hello") == Accepted("t1", "streaming", 0, duplicate=True)
    for key in ("old", "new"):
        with pytest.raises(Conflict, match="another prompt"):
            await receipts.known(key, "something else")
    assert await receipts.known("", "hello") is None


async def test_a_receipt_counts_when_its_prompt_is_stored():
    receipts = receipts_over(Rows())
    receipts.keep("k", "body", Accepted("t1", "streaming"), done := commit())
    asking = asyncio.ensure_future(receipts.find("k", "body"))
    await settle()
    assert not asking.done()
    asking.cancel()
    await settle()
    assert not done.cancelled(), "who asks again may leave"
    done.set_result([])
    assert (await receipts.find("k", "body")).turn_id == "t1"


async def test_two_of_one_key_that_meet_at_the_store_are_one():
    rows = Rows()
    rows.gate = Gate()
    receipts = receipts_over(rows)
    asking = asyncio.ensure_future(receipts.find("k", "body"))
    await rows.gate.wait_parked()
    receipts.keep("k", "body", Accepted("t1", "streaming"), done := commit())
    done.set_result([])
    rows.gate.release()
    assert (await asking).turn_id == "t1"


async def test_the_key_of_what_was_not_stored_is_free_again_and_only_that():
    receipts = receipts_over(Rows())
    receipts.keep("k", "body", Accepted("t1", "streaming"), lost := commit())
    receipts.keep("k", "body", Accepted("t2", "streaming"), kept := commit())
    lost.set_exception(StoreFull("No space."))
    lost.exception()
    kept.set_result([])
    await settle()
    assert (await receipts.find("k", "body")).turn_id == "t2"
    receipts.keep("other", "body", Accepted("t3", "streaming"), lost := commit())
    lost.set_exception(StoreFull("No space."))
    lost.exception()
    await settle()
    assert await receipts.find("other", "body") is None


async def test_receipts_have_a_limit(monkeypatch):
    monkeypatch.setattr(prompts, "RECEIPTS_MAX", 2)
    receipts = receipts_over(Rows())
    for key in "abc":
        receipts.keep(key, "body", Accepted(key, "streaming"), done := commit())
        done.set_result([])
    assert await receipts.find("a", "body") is None, "in the store it would be found"
    assert (await receipts.find("c", "body")).turn_id == "c"


def test_a_policy_that_nobody_knows_is_the_usual_one():
    session = SimpleNamespace(settings={"busy": "whatever"})
    assert policy_of(session) == "queue"


# --- in a session -------------------------------------------------------------------------------


async def test_what_waits_is_shown_whenever_that_changes(tmp_path):
    async with open_test_gateway(tmp_path, Script([{"gate": "g"}, {"text": "x"}])) as gw:
        client, _ = await gw.client()
        session = gw.sessions.get(await client.ready_session())

        async def shown() -> list[str]:
            told = await client.until("prompt.queue", session.id)
            return [entry["text"] for entry in told.payload["entries"]]

        await session.submit("runs")
        one = await session.submit("one")
        assert await shown() == ["one"]
        two = await session.submit("two")
        assert await shown() == ["one", "two"]
        await prompts.edit_queued(session, two.turn_id, "changed")
        assert await shown() == ["one", "changed"]
        assert await prompts.remove_queued(session, one.turn_id) == "one"
        assert await shown() == ["changed"]
        gw.picker.script.gate("g").open()
        assert await shown() == []
        assert session.receipts._kept is None, "for those with a key alone"


async def test_what_waits_in_a_session_that_closes_is_the_closings(tmp_path):
    async with open_test_gateway(tmp_path, Script([{"gate": "g"}])) as gw:
        client, _ = await gw.client()
        session = gw.sessions.get(await client.ready_session())
        await session.submit("runs")
        waits = await session.submit("waits")
        gw.sessions.close_nowait(session, "closed", "client")
        with pytest.raises(SessionClosing):
            await prompts.remove_queued(session, waits.turn_id)
        assert (await client.until("session.closed", session.id)).payload["returned"] == ["waits"]
