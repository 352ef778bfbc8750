"""Notes that are remembered, in either store."""

from __future__ import annotations

from tenure.store.base import AcceptMemory, DeleteMemories, InsertMemory, MemoryRow
from tenure.store.terms import terms_of


def insert(text, rows_max=10, bytes_max=1_000, **changes):
    return InsertMemory(
        MemoryRow(0, text, changes.pop("state", "proposed"), "agent", "s1", 1.0, **changes),
        rows_max,
        bytes_max,
    )


async def ids(store, words, state="", limit=10):
    return [row.id for row in await store.find_memories(terms_of(words), state=state, limit=limit)]


async def test_notes_come_and_go(store):
    assert await store.write(insert("Ada likes tea."), insert("Tea, tea.")) == [1, 2]
    assert (await store.memories())[0] == MemoryRow(
        1, "Ada likes tea.", "proposed", "agent", "s1", 1.0
    )
    assert await store.write(AcceptMemory(1, 5.0)) == [True]
    assert await store.write(AcceptMemory(9, 5.0)) == [False]
    assert await ids(store, "tea", "accepted") == [1]
    assert sorted(await ids(store, "TEA")) == [1, 2] and len(await ids(store, "tea", limit=1)) == 1
    assert await store.write(AcceptMemory(1, 6.0, "Ada likes coffee.")) == [True]
    assert await ids(store, "coff*") == [1] and await ids(store, "ada tea") == []
    assert await store.write(DeleteMemories((2, 1), "accepted")) == [[1]]
    assert await store.write(DeleteMemories((2, 2, 7))) == [[2]]
    assert await store.memories() == [] == await ids(store, "tea")
    assert await store.write(insert("Again.")) == [3], "a number is not used twice"


async def test_limits(store):
    assert await store.write(insert("a", 2), insert("b", 2), insert("c", 2)) == [1, 2, 0]
    assert await store.write(insert("é" * 5, 9, 11)) == [0], "bytes, not characters"
    assert await store.write(insert("é" * 4, 9, 11)) == [3]
