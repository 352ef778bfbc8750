"""The contract of every store: finding sessions by what was said, and by the marks people set."""

from __future__ import annotations

import pytest

from tenure.conversation import Message
from tenure.errors import BadValue
from tenure.store import base as b
from tenure.store.terms import terms_of

ALL = b.Sieve()


def sid(n):
    return f"20260101_000000_{n:08x}"


async def add(store, n, *texts, **changes):
    """Session `n`, used at second `n`, in which that was said in turns."""
    row = b.SessionRow(sid(n), f"No. {n}", "/", "m", "t", "open", "", 0.0, float(n), **changes)
    items = [
        b.AppendItem(row.id, b.ItemRow(seq, "", "message", Message(role, text)))
        for seq, (role, text) in enumerate(zip(("user", "assistant") * 9, texts, strict=False), 1)
    ]
    await store.write(b.InsertSession(row, "me"), *items)


async def numbers(store, text, **only):
    found = await store.search(terms_of(text), only=b.Sieve(**only), limit=50)
    return [int(one.session_id[-8:], 16) for one in found]


async def test_every_word_must_stand_in_one_message(store):
    await add(store, 1, "How do I deploy the billing service?", "With the deploy script.")
    await add(store, 2, "The deployment of billing failed", "Which service?")
    await add(store, 3, "nothing of that")
    assert await numbers(store, "deploy billing") == [1]
    assert await numbers(store, "billing service") == [1]
    assert set(await numbers(store, "deploy* billing")) == {1, 2}
    assert await numbers(store, "BILLING SERVICE deploy") == [1]
    assert await numbers(store, "billing nothing") == []


@pytest.mark.parametrize(("asked", "found"), [
    ('"billing service"', [1]), ('"service billing"', []), ('"the bill*', [1]),
    ('"the bil"*', [1]), ("café", [2]), ("CAFE", [2]), ("naïve*", [2]), ("session_id", [3]),
    ("src/tenure/app.py", [3]), ("NEAR(the 2)", []), ("the AND billing", []), ("-- the billing", [1]),
    ('the"billing', [1]), ("bill*ing", []), ("* the", [1, 2]), ("text:billing", []), ("日本語", [4]),
])  # fmt: skip
async def test_what_can_be_typed(store, asked, found):
    await add(store, 1, "the billing service")
    await add(store, 2, "a naïveté in the Café of that street")
    await add(store, 3, "see src/tenure/app.py for session_id")
    await add(store, 4, "日本語 です")
    assert sorted(await numbers(store, asked)) == found


@pytest.mark.parametrize("asked", ["", "  ", '"', "*", '"" *', "-- !?", "x" * 1001, "a " * 33])
def test_what_holds_no_word_is_told_in_a_sentence(asked):
    with pytest.raises(BadValue, match=r"Search for at least|A search has"):
        terms_of(asked)


@pytest.mark.parametrize(
    "asked", ["'; DROP TABLE items; --", '"a" OR "b"', "a^2", "{a b}: c", "a + b"]
)
async def test_no_syntax_of_the_index_reaches_it(store, asked):
    await add(store, 1, "a b")
    await numbers(store, asked)
    assert await numbers(store, "a b") == [1]


async def test_a_snippet_with_marks_and_the_number_of_hits(store):
    await add(store, 1, "first", "The Deploy script is in bin", "where?", "deploy again")
    (found,) = await store.search(terms_of("deploy"), only=ALL, limit=9)
    assert found.hits == 2 and found.title == "No. 1" and found.used_at == 1.0
    assert (found.seq, found.role) in {(2, "assistant"), (4, "assistant")}
    assert {found.snippet[a:z].lower() for a, z in found.marks} == {"deploy"}


async def test_what_is_dropped_or_deleted_is_found_no_more(store):
    await add(store, 1, "alpha beta", "gamma", "delta alpha")
    await add(store, 2, "alpha")
    await store.write(b.DropItems(sid(1), 2))
    assert await numbers(store, "gamma") == await numbers(store, "delta") == []
    assert set(await numbers(store, "alpha")) == {1, 2}
    await store.write(
        b.AppendItem(sid(1), b.ItemRow(2, "", "message", Message("assistant", "epsilon")))
    )
    assert await numbers(store, "epsilon") == [1]
    await store.write(b.DeleteSession(sid(1)))
    assert await numbers(store, "alpha") == [2] and await numbers(store, "epsilon") == []


async def test_a_write_that_fails_leaves_nothing_to_find(store):
    await add(store, 1, "alpha")
    twice = b.AppendItem(sid(1), b.ItemRow(1, "", "message", Message("user", "omega")))
    with pytest.raises(Exception, match="refused"):
        await store.write(
            b.AppendItem(sid(1), b.ItemRow(2, "", "message", Message("user", "omega"))), twice
        )
    assert await numbers(store, "omega") == [] and await numbers(store, "alpha") == [1]


async def test_summaries_and_empty_messages_are_not_indexed(store):
    await add(store, 1, "alpha")
    summary = b.ItemRow(2, "", "summary", Message("user", "alpha omega"), replaces=1)
    await store.write(b.AppendItem(sid(1), summary))
    await store.write(b.AppendItem(sid(1), b.ItemRow(3, "", "message", Message("assistant"))))
    assert await numbers(store, "omega") == []
    await store.write(b.DeleteSession(sid(1)))
    assert await numbers(store, "alpha") == []


async def test_marks_sieve_lists_and_searches_alike(store):
    for n in range(1, 6):
        await add(store, n, "alpha")
    await store.write(b.PatchSession(sid(2), {"pinned": True}))
    await store.write(b.PatchSession(sid(3), {"archived": True}))
    assert await store.write(b.TagSession(sid(4), add=("work", "a-b"))) == [("a-b", "work")]
    assert await store.write(b.TagSession(sid(5), add=("works",))) == [("works",)]
    for only, expected in [
        ({}, [2, 5, 4, 1]), ({"pinned": True}, [2]), ({"archived": True}, [3]),
        ({"tag": "work"}, [4]), ({"tag": "wor"}, []), ({"since": 4.0}, [5, 4]),
        ({"apart": sid(5)}, [2, 4, 1]), ({"tag": "work", "pinned": True}, []),
    ]:  # fmt: skip
        rows = await store.sessions(limit=9, only=b.Sieve(**only))
        assert [int(row.id[-8:], 16) for row in rows] == expected, only
        assert set(await numbers(store, "alpha", **only)) == set(expected), only
    assert [int(r.id[-8:], 16) for r in await store.sessions(limit=9)] == [5, 4, 3, 2, 1]
    row = await store.session(sid(4))
    assert row.tags == ("a-b", "work") and not row.pinned and not row.archived
    assert await store.write(b.TagSession(sid(4), remove=("work", "none"))) == [("a-b",)]
    assert await store.write(b.TagSession(sid(9), add=("x",))) == [None]


async def test_tags_are_bounded(store):
    await add(store, 1)
    many = tuple(f"t{n}" for n in range(b.TAGS_MAX))
    assert await store.write(b.TagSession(sid(1), add=many)) == [tuple(sorted(many))]
    assert await store.write(b.TagSession(sid(1), add=("more",))) == [tuple(sorted(many))]
