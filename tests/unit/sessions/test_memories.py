"""What agents remember: proposed, accepted, bounded, gone."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from support.delegation import delegating, script_of, sub
from support.memories import with_memories
from tenure.config import Config
from tenure.errors import Conflict, NotFound, StoreFull
from tenure.models.base import Picked
from tenure.models.script import Script
from tenure.sessions import memories as module
from tenure.sessions.memories import Memories, SessionMemory
from tenure.settings import MemoryConfig
from tenure.testing.gates import Gate
from tenure.testing.gateway import open_test_gateway
from tenure.testing.store import MemoryStore
from tenure.testing.turns import PlayedModel
from tenure.tools.registry import tools_for


def remembers(action, text):
    return {"call": {"name": "memory", "arguments": {"action": action, "text": text}}}


def config(**memory) -> Config:
    return msgspec.structs.replace(Config(), memory=MemoryConfig(**memory))


async def begin(gateway):
    client, _ = await gateway.client()
    session = await client.ready_session()
    await client.call("prompt.submit", session_id=session, text="go")
    await client.until("message.complete")
    return client, session


def results(script):
    return [m.text for m in script.requests[-1].messages if m.role == "tool"]


async def test_an_agent_proposes_and_a_person_decides(tmp_path):
    script = Script([
        [remembers("propose", "Ada likes tea."), remembers("search", "tea")],
        {"text": "Done."}, [remembers("search", "tea")], {"text": "Done."},
    ])  # fmt: skip
    async with open_test_gateway(tmp_path, script, tools=tools_for) as gateway:
        memories = with_memories(gateway)
        client, session = await begin(gateway)
        assert results(script) == [
            "Proposed; it counts once the person accepts it.", "No note has these words.",
        ]  # fmt: skip
        (told,) = [e for e in client.seen if e.type == "memory.changed"]
        assert told.payload == {"id": 1, "state": "proposed", "text": "Ada likes tea."}
        assert told.seq == 0, "no event of it is stored"
        (row,) = await memories.rows()
        assert (row.by, row.session_id) == ("agent", session)
        assert memories.text == ""
        await client.call("memory.accept", session_id=session, id=1)
        await client.call("prompt.submit", session_id=session, text="again")
        await client.until("message.complete")
        assert "- Ada likes tea. (2027-01-15)\n</notes>" in script.requests[-1].system
        assert results(script)[-1] == "- Ada likes tea. (2027-01-15)"


async def test_the_configuration_may_let_agents_decide(tmp_path):
    script = Script([remembers("propose", "Ada likes tea."), {"text": "Done."}])
    cfg = config(auto_accept=True)
    async with open_test_gateway(tmp_path, script, tools=tools_for, config=cfg) as gateway:
        memories = with_memories(gateway)
        client, _ = await begin(gateway)
        assert results(script) == ["Kept."]
        (told,) = [e for e in client.seen if e.type == "memory.changed"]
        assert told.payload["state"] == "accepted" and "Ada likes tea." in memories.text


async def test_turned_off_agents_have_none_of_it(tmp_path):
    script = Script([remembers("propose", "x"), {"text": "Done."}])
    cfg = config(enabled=False)
    async with open_test_gateway(tmp_path, script, tools=tools_for, config=cfg) as gateway:
        memories = with_memories(gateway)
        await memories.add("Tabs.", "person")
        client, _ = await begin(gateway)
        assert "There is no tool 'memory'" in results(script)[0]
        assert "Tabs." not in script.requests[-1].system
        assert len((await client.call("memory.list"))["notes"]) == 1, "people still see it"


async def test_a_small_model_is_told_nothing(tmp_path, monkeypatch):
    async with open_test_gateway(tmp_path, Script([]), tools=tools_for) as gateway:
        memories = with_memories(gateway)
        await memories.add("Tabs.", "person")
        model = PlayedModel(small=True)

        async def pick(wanted, into):
            return Picked(model, "a test")

        monkeypatch.setattr(gateway.picker, "pick", pick)
        await begin(gateway)
        (request,) = model.requests
        assert "Tabs." not in request.system and "memory" not in [t.name for t in request.tools]


async def test_sub_agents_are_told_and_propose_nothing(tmp_path):
    script = script_of(
        delegating("goal one"),
        {"text": "So."},
        on=[sub("goal one", remembers("propose", "Mine."), {"text": "found"})],
    )
    async with open_test_gateway(tmp_path, script, tools=tools_for) as gateway:
        memories = with_memories(gateway)
        await memories.add("Tabs.", "person")
        await begin(gateway)
        mine = next(r for r in script.requests if "goal one" in r.messages[0].text)
        assert "Tabs." in mine.system and "memory" not in [tool.name for tool in mine.tools]
        assert len(await memories.rows()) == 1


async def test_limits(tmp_path, monkeypatch):
    cfg = config(notes_max=3, bytes_max=1_000, prompt_chars=70)
    monkeypatch.setattr(module, "PROPOSED_MAX", 1)
    async with open_test_gateway(tmp_path, Script([]), config=cfg) as gateway:
        memories = with_memories(gateway)
        await memories.add("one", "agent")
        with pytest.raises(Conflict, match="1 notes wait"):
            await memories.add("two", "agent")
        assert (await memories.add("ONE.", "agent")).id == 1, "the same again is no other"
        assert (await memories.add("One", "person")).state == "accepted", "whose yes counts"
        for n in (2, 3):
            await memories.add(f"number {n} of those", "person")
        with pytest.raises(Conflict, match="no room for another note"):
            await memories.add("four", "person")
        assert memories.text.count("\n- ") == 3, "the newest that fit, and a line"
        assert "number 3" in memories.text and "and 1 more" in memories.text
        await memories.remove([1, 2, 3])
        await memories.add("x" * 900, "person")
        with pytest.raises(Conflict, match="1,000 bytes"):
            await memories.add("é" * 51, "person")


async def test_what_is_not_stored_does_not_count(tmp_path):
    async with open_test_gateway(tmp_path, Script([])) as gateway:
        memories = with_memories(gateway)
        kept = await memories.add("Tabs.", "person")
        waiting = await memories.add("Spaces.", "agent")
        before, text = await memories.rows(), memories.text
        for change in (
            lambda: memories.add("Another.", "person"),
            lambda: memories.accept(waiting.id),
            lambda: memories.remove([kept.id]),
        ):
            gateway.store.fail(StoreFull("No space is left."))
            with pytest.raises(StoreFull):
                await change()
            assert (await memories.rows(), memories.text) == (before, text)


async def test_the_slower_of_two_first_looks_undoes_nothing(clock):
    store, gate = MemoryStore(), Gate()
    memories, look = Memories(store, clock, Config), store.memories

    async def slowly():
        rows = await look()
        await gate.park()
        return rows

    store.memories = slowly
    slower = asyncio.ensure_future(memories.ready())
    await gate.wait_parked()
    store.memories = look
    kept = await memories.add("Tabs.", "person")
    gate.release()
    await slower
    assert await memories.rows() == [kept]


async def test_whoever_accepts_after_another_keeps_the_words_of_that_one(clock):
    store = MemoryStore()
    memories = Memories(store, clock, Config)
    kept = await memories.add("Tabs.", "agent")
    store._gate = gate = Gate()
    both = [asyncio.ensure_future(memories.accept(kept.id, text)) for text in ("Spaces.", "")]
    await gate.wait_parked()
    gate.release()
    assert [(await one).text for one in both] == ["Spaces.", "Spaces."]
    assert await memories.rows() == await store.memories()
    assert "Spaces." in memories.text


async def test_no_more_is_found_than_may_be_told(clock, monkeypatch):
    monkeypatch.setattr(module, "FOUND_MAX", 2)
    memories = Memories(MemoryStore(), clock, Config)
    for n in range(4):
        await memories.add(f"tea number {n}", "person")
    for limit, count in ((10**9, 2), (2, 2), (1, 1), (-1, 1)):
        assert len(await memories.search("tea", "", limit)) == count


async def test_a_note_that_goes_meanwhile_is_not_accepted(clock):
    store = MemoryStore()
    memories = Memories(store, clock, Config)
    kept = await memories.add("Tabs.", "agent")
    store._gate = gate = Gate()
    removing = asyncio.ensure_future(memories.remove([kept.id]))
    accepting = asyncio.ensure_future(memories.accept(kept.id))
    await gate.wait_parked()
    gate.release()
    assert await removing == [kept.id]
    with pytest.raises(NotFound, match="no note 1"):
        await accepting
    assert await memories.rows() == [] and memories.text == ""


async def test_an_agent_finds_only_what_counts(clock):
    memories = Memories(MemoryStore(), clock, Config)
    await memories.add("Ada likes tea.", "person")
    await memories.add("Tea is for Bob.", "agent")
    found = await SessionMemory(None, memories).search("tea", 9)  # type: ignore[arg-type]
    assert [line.partition(" (")[0] for line in found] == ["Ada likes tea."]
