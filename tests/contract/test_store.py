"""The contract of every store: the real SQLite one and the one in memory."""

from __future__ import annotations

import msgspec
import pytest

from tenure.conversation import Message, Upload
from tenure.errors import LeaseLost, StoreError
from tenure.store import base as b


def a_session(sid="20260101_000000_00000001", **changes):
    values = {
        "id": sid,
        "title": "",
        "cwd": "/",
        "model": "m",
        "source": "t",
        "status": "open",
        "reason": "",
        "created_at": 1.0,
        "updated_at": 1.0,
        **changes,
    }
    return b.SessionRow(**values)


SID = "20260101_000000_00000001"
KEY = f"session:{SID}"


def a_turn(n, state="running"):
    return b.TurnRow(f"t{n}", SID, n, state, f"prompt {n}", 1.0)


def an_item(seq, text="hi"):
    return b.AppendItem(SID, b.ItemRow(seq, "t1", "message", Message("user", text)))


def an_event(kind="x", epoch=1):
    return b.AppendEvent(SID, b.EventRow(epoch, 0, kind, b"{}", 1.0))


async def test_a_write_takes_effect_as_a_whole(store):
    await store.write(b.InsertSession(a_session(), "me"))
    with pytest.raises(StoreError):
        await store.write(an_item(1), an_item(1))
    assert await store.history(SID) == []
    await store.write(an_item(1), an_event())
    assert [row.message.text for row in await store.history(SID)] == ["hi"]
    assert (await store.session(SID)).message_count == 1


async def test_a_newer_owner_fences_the_older_off(store):
    await store.write(b.InsertSession(a_session(), "me"))
    (epoch,) = await store.write(b.TakeLease(KEY, "you", 2.0))
    assert epoch == 2
    with pytest.raises(LeaseLost):
        await store.write(b.Fence(KEY, 1), an_item(1))
    assert await store.history(SID) == []
    await store.write(b.Fence(KEY, 2), an_item(1))


async def test_events_are_numbered_without_gaps_also_after_a_failure(store):
    await store.write(b.InsertSession(a_session(), "me"))
    first = store.write(b.Fence(KEY, 1), an_event("a"), an_event("b"))
    failing = store.write(b.Fence(KEY, 9), an_event("never"))
    last = store.write(b.Fence(KEY, 1), an_event("c"))
    assert (await first)[1:] == [1, 2]
    with pytest.raises(LeaseLost):
        await failing
    assert (await last)[1:] == [3]
    rows = await store.events(SID, epoch=1, after_seq=1, limit=10)
    assert [(row.seq, row.type) for row in rows] == [(2, "b"), (3, "c")]
    assert await store.write(an_event("new", epoch=2)) == [1]


async def test_a_final_turn_stays_final(store):
    await store.write(b.InsertSession(a_session(), "me"), b.InsertTurn(a_turn(1)))
    assert await store.write(b.PatchTurn("t1", {"state": "completed"})) == [1]
    assert await store.write(b.PatchTurn("t1", {"state": "failed"})) == [0]
    assert [t.state for t in await store.turns(SID)] == ["completed"]


async def test_a_question_is_decided_once(store):
    row = b.ApprovalRow("q", SID, "t1", {"command": "ls"}, 1.0)
    await store.write(b.InsertSession(a_session(), "me"), b.InsertApproval(row))
    assert await store.write(b.DecideApproval("q", "once", 2.0)) == [1]
    assert await store.write(b.DecideApproval("q", "deny", 2.0)) == [0]


async def test_a_deleted_session_cannot_come_back(store):
    await store.write(b.InsertSession(a_session(), "me"), an_item(1), b.InsertTurn(a_turn(1)))
    assert await store.write(b.DeleteSession(SID)) == [True]
    assert await store.write(b.DeleteSession(SID)) == [False]
    with pytest.raises(StoreError):
        await store.write(b.Fence(KEY, 1), an_item(2))
    assert await store.session(SID) is None
    assert await store.history(SID) == [] and await store.turns(SID) == []


async def test_what_a_dead_gateway_left_open_is_ended_with_a_reason(store):
    row = b.ApprovalRow("q", SID, "t1", {}, 1.0)
    await store.write(
        b.InsertSession(a_session(), "dead"),
        b.InsertTurn(a_turn(1)),
        b.InsertTurn(a_turn(2, "queued")),
        b.InsertApproval(row),
    )
    assert await store.write(b.SettleLeftovers("crash", 5.0)) == [
        {"turns": 2, "sessions": 1, "approvals": 1}
    ]
    turns = await store.turns(SID)
    assert [(t.state, t.cause, t.ended_at) for t in turns] == [
        ("interrupted", "crash", 5.0),
        ("refused", "crash", 5.0),
    ]
    stored = await store.session(SID)
    assert (stored.status, stored.reason) == ("closed", "crash")
    assert await store.write(b.SettleLeftovers("crash", 6.0)) == [
        {"turns": 0, "sessions": 0, "approvals": 0}
    ]


async def test_sessions_come_newest_use_first(store):
    ids = [f"20260101_00000{n}_00000001" for n in range(3)]
    for n, sid in enumerate(ids):
        await store.write(b.InsertSession(a_session(sid, updated_at=float(n)), "me"))
    await store.write(b.PatchSession(ids[0], {"updated_at": 9.0, "settings": {"a": 1}}))
    rows = await store.sessions(limit=2)
    assert [row.id for row in rows] == [ids[0], ids[2]]
    assert rows[0].settings == {"a": 1}
    await store.write(
        b.PatchSession(ids[0], {"settings": {"b": [2]}}),
        b.PatchSession(ids[0], {"settings": {"a": 3}}),
    )
    row = await store.session(ids[0])
    assert row is not None and row.settings == {"a": 3, "b": [2]}, "each key by itself"


async def test_closing_is_idempotent_and_later_use_raises_one_typed_error(store):
    written = store.write(b.InsertSession(a_session(), "me"))
    await store.aclose()
    await store.aclose()
    assert await written == [None], "what was accepted is committed"
    refused = store.write(an_event())
    assert refused.done(), "at once"
    with pytest.raises(StoreError, match="closed"):
        await refused


async def test_a_cancelled_waiter_does_not_undo_the_write(store):
    written = store.write(b.InsertSession(a_session(), "me"))
    written.cancel()
    await store.write(an_event())
    assert await store.session(SID) is not None


async def test_a_turn_that_is_not_stored_or_is_over_writes_nothing(store):
    await store.write(b.InsertSession(a_session(), "me"))
    with pytest.raises(LeaseLost, match="not stored"):
        await store.write(b.FenceTurn("t1"), an_item(1), an_event())
    waits = msgspec.structs.replace(a_turn(1), state="queued")
    await store.write(b.InsertTurn(waits), b.FenceTurn("t1"), an_item(1))
    with pytest.raises(LeaseLost, match="waits"):
        await store.write(b.FenceTurn("t1", runs=True), an_item(2))
    start = b.PatchTurn("t1", {"state": "running"})
    await store.write(start, b.FenceTurn("t1", runs=True))
    await store.write(b.FenceTurn("t1"), b.PatchTurn("t1", {"state": "completed"}))
    with pytest.raises(LeaseLost, match="completed"):
        await store.write(b.FenceTurn("t1"), an_item(2), an_event())
    assert [item.seq for item in await store.history(SID)] == [1]
    assert await store.events(SID, epoch=1, after_seq=0, limit=9) == []


async def test_leftovers_of_one_session_are_ended_and_of_no_other(store):
    other = "20260101_000000_00000002"
    await store.write(b.InsertSession(a_session(), "me"), b.InsertTurn(a_turn(1)))
    await store.write(
        b.InsertSession(a_session(other), "me"),
        b.InsertTurn(b.TurnRow("t2", other, 1, "queued", "p", 1.0)),
        b.InsertApproval(b.ApprovalRow("a1", SID, "t1", {}, 1.0)),
        b.InsertApproval(b.ApprovalRow("a2", other, "t2", {}, 1.0)),
    )
    (counts,) = await store.write(b.SettleLeftovers("client", 2.0, SID))
    assert counts == {"turns": 1, "sessions": 0, "approvals": 1}
    assert [(t.state, t.cause) for t in await store.turns(SID)] == [("interrupted", "client")]
    assert [t.state for t in await store.turns(other)] == ["queued"]
    assert {(await store.session(sid)).status for sid in (SID, other)} == {"open"}


async def test_a_change_of_a_session_says_whether_it_is_there(store):
    await store.write(b.InsertSession(a_session(), "me"))
    assert await store.write(b.PatchSession(SID, {"title": "x"})) == [1]
    await store.write(b.DeleteSession(SID))
    assert await store.write(b.PatchSession(SID, {"title": "y"})) == [0]


async def test_only_a_marked_turn_is_found_and_its_mark_is_taken_once(store):
    await store.write(
        b.InsertSession(a_session(), "me"),
        b.InsertTurn(a_turn(1)),
        b.InsertTurn(b.TurnRow("t2", SID, 2, "running", "late", 1.0, started_at=9.0)),
        b.InsertTurn(a_turn(3, "completed")),
    )
    assert await store.unfinished() == []
    assert await store.write(b.MarkInterrupted(5.0)) == [2]
    await store.write(b.SettleLeftovers("crash", 6.0))
    assert await store.unfinished() == [b.Unfinished(SID, 1)]
    turns = await store.turns(SID)
    assert [(t.state, t.marked_at) for t in turns] == [
        ("interrupted", 5.0), ("interrupted", 9.0), ("completed", 0.0),
    ]  # fmt: skip
    for turn_id in ("t1", "t2"):
        await store.write(b.TakeMark(turn_id))
        with pytest.raises(LeaseLost, match="taken"):
            await store.write(an_item(1), b.TakeMark(turn_id))
    assert await store.unfinished() == [] and await store.history(SID) == []


async def test_queued_prompts_can_be_kept_and_what_continues_a_turn_stands_behind_it(store):
    await store.write(
        b.InsertSession(a_session(), "me"),
        b.InsertTurn(a_turn(1)),
        b.InsertTurn(a_turn(2, "queued")),
        b.InsertTurn(b.TurnRow("t1b", SID, 1, "queued", "on", 2.0, continues="t1", attempts=1)),
    )
    (counts,) = await store.write(b.SettleLeftovers("crash", 5.0, keep_queued=True))
    assert counts["turns"] == 1
    assert [(t.id, t.state, t.continues, t.attempts) for t in await store.turns(SID)] == [
        ("t1", "interrupted", "", 0), ("t1b", "queued", "t1", 1), ("t2", "queued", "", 0),
    ]  # fmt: skip
    assert await store.unfinished() == [b.Unfinished(SID, 1)]
    await store.write(b.SettleLeftovers("client", 6.0, SID))
    assert [t.state for t in await store.turns(SID)] == ["interrupted", "refused", "refused"]


async def test_a_running_lease_keeps_the_home_until_it_ends_or_its_holder_is_known_dead(store):
    assert await store.home() is None
    assert await store.write(b.TakeHome("first", 60.0)) == [(1, None)]
    with pytest.raises(LeaseLost, match="held"):
        await store.write(b.TakeHome("second", 60.0))
    ((epoch, before),) = await store.write(b.TakeHome("second", 60.0, over=1))
    assert (epoch, before.holder, before.epoch) == (2, "first", 1)
    with pytest.raises(LeaseLost):
        await store.write(b.RenewHome(1, 60.0))
    await store.write(b.EndHome(1))
    assert (await store.home()).holder == "second", "a late end harms nobody"
    expires = (await store.home()).expires_at
    await store.write(b.RenewHome(2, 90.0))
    assert (await store.home()).expires_at > expires + 25
    await store.write(b.EndHome(2))
    assert (await store.write(b.TakeHome("third", 0.0)))[0][0] == 3
    ((epoch, before),) = await store.write(b.TakeHome("fourth", 60.0))
    assert (epoch, before.holder) == (4, "third"), "its time was up"


async def test_whoever_has_lost_the_home_writes_nothing_and_is_told_once(store):
    told = []
    await store.write(b.TakeHome("first", 60.0), b.InsertSession(a_session(), "me"))
    store.hold_home(1, lambda: told.append("lost"))
    await store.write(an_item(1))
    await store.write(b.TakeHome("second", 60.0, over=1))
    for _ in range(2):
        with pytest.raises(LeaseLost, match="another gateway"):
            await store.write(b.Fence(KEY, 1), an_item(2))
    assert [item.seq for item in await store.history(SID)] == [1]
    assert told == ["lost"]


async def test_what_closed_sessions_leave_is_pruned_the_longest_unused_first(store):
    for n, (status, used) in enumerate(
        [("closed", 5.0), ("closed", 3.0), ("open", 1.0), ("closed", 90.0)]
    ):
        sid = f"20260101_000000_0000000{n}"
        row = a_session(sid, status=status, updated_at=used)
        event = b.AppendEvent(sid, b.EventRow(1, 0, "x", b"{}", 1.0))
        await store.write(b.InsertSession(row, "me"), event)

    async def with_events():
        found = [r.id[-1] for r in await store.sessions(limit=9)]
        return {n for n in found if await store.events(f"20260101_000000_0000000{n}", epoch=1, after_seq=0, limit=9)}  # fmt: skip

    assert await store.write(b.PruneEvents(50.0, 1)) == [1]
    assert await with_events() == {"0", "2", "3"}
    assert await store.write(b.PruneEvents(50.0, 9)) == [1]
    assert await with_events() == {"2", "3"}
    assert await store.write(b.PruneEvents(50.0, 9)) == [0]
    pinned = a_session("20260101_000000_00000009", status="closed", updated_at=2.0, pinned=True)
    await store.write(b.InsertSession(pinned, "me"))
    assert await store.write(b.PruneSessions(50.0, 1)) == [["20260101_000000_00000001"]]
    assert await store.write(b.PruneSessions(50.0, 9)) == [["20260101_000000_00000000"]]
    assert {r.id[-1] for r in await store.sessions(limit=9)} == {"2", "3", "9"}
    with pytest.raises(LeaseLost):  # a late write of what is gone is fenced off
        await store.write(b.Fence("session:20260101_000000_00000001", 1), b.PatchSession("x", {}))


async def test_sessions_in_which_nothing_was_said(store):
    told = {"title": "t", "preview": "p", "message_count": 1, "pinned": True, "tags": ("x",)}
    rows = [a_session(f"20260101_000000_0000000{n}", status="closed", **{name: value})
            for n, (name, value) in enumerate(told.items())]  # fmt: skip
    rows += [
        a_session(f"20260101_000000_0000001{n}", status=status)
        for n, status in enumerate(("closed", "idle", "open"))
    ]
    for row in rows:
        await store.write(b.InsertSession(row, "me"))
    found = await store.sessions(limit=99, only=b.Sieve(said=True))
    assert {r.id for r in found} == {r.id for r in rows[:5]} and all(r.said for r in found)
    await store.write(b.EndIdle(rows[6].id, "x", 1.0, hook=True))
    assert await store.write(b.PruneSessions(5.0, 9, empty=True)) == [[rows[5].id]]
    assert await store.write(b.FinishEnd(rows[6].id, 2)) and await store.write(
        b.PruneSessions(5.0, 9, empty=True)
    ) == [[rows[6].id]]
    assert await store.write(b.PruneSessions(0.5, 9, empty=True)) == [[]]


async def test_questions_by_how_they_were_decided(store):
    await store.write(b.InsertSession(a_session(), "me"))
    asked = {"command": "ls", "grants": [{"tool": "shell"}]}
    for n, kind in enumerate(("approval", "clarify", "secret")):
        row = b.ApprovalRow(f"q{n}", SID, "t1", asked, float(n), kind=kind, principal="owner")
        await store.write(b.InsertApproval(row))
    assert [r.id for r in await store.questions(SID, decision="")] == ["q0", "q1", "q2"]
    assert await store.write(b.DecideApproval("q0", "session", 5.0)) == [1]
    assert await store.write(b.DecideApproval("q0", "deny", 6.0)) == [0]
    (row,) = await store.questions(SID, decision="session")
    assert (row.kind, row.principal, row.question) == ("approval", "owner", asked)
    assert await store.write(b.RevokeApproval("q1", 7.0), b.RevokeApproval("q0", 7.0)) == [0, 1]
    assert await store.write(b.RevokeApproval("q0", 8.0)) == [0]
    assert await store.questions(SID, decision="session") == []
    assert await store.questions("other", decision="") == []


async def test_a_session_with_prompts_that_wait_is_not_pruned(store):
    await store.write(
        b.InsertSession(a_session(status="closed"), "me"), b.InsertTurn(a_turn(1, "queued"))
    )
    assert await store.write(b.PruneSessions(5.0, 9)) == [[]]
    await store.write(b.PatchTurn("t1", {"state": "refused"}))
    assert await store.write(b.PruneSessions(5.0, 9)) == [[SID]]


async def test_a_note_is_delivered_once_and_goes_with_its_session(store):
    await store.write(b.InsertSession(a_session(), "me"))
    for n in (2, 1):
        await store.write(b.InsertNote(b.NoteRow(f"n{n}", SID, "b1", f"text {n}", float(n))))
    assert [row.id for row in await store.notes(SID)] == ["n1", "n2"], "oldest first"
    assert await store.notes("other") == []
    await store.write(b.DeliverNotes(("n1",), 5.0))
    for again in (("n1",), ("n2", "n1"), ("unknown",)):
        with pytest.raises(LeaseLost):
            await store.write(b.DeliverNotes(again, 6.0))
    assert await store.notes(SID) == [b.NoteRow("n2", SID, "b1", "text 2", 2.0)]
    with pytest.raises(StoreError):
        await store.write(b.InsertNote(b.NoteRow("n3", "nobody", "b1", "text", 1.0)))
    assert await store.write(b.DeleteSession(SID)) == [True]
    assert await store.notes(SID) == []


async def test_the_end_of_a_session_is_taken_up_once(store):
    await store.write(b.InsertSession(a_session(), "me"))
    await store.write(b.Fence(f"session:{SID}", 1), b.InsertEnd(SID, "closed", 5.0))
    with pytest.raises(StoreError):
        await store.write(b.InsertEnd(SID, "twice in one incarnation", 6.0))
    assert await store.ends() == [b.EndRow(SID, 1, "closed", 5.0)]
    await store.write(b.StartEnd(SID, 1, 6.0))
    for again in (b.StartEnd(SID, 1, 7.0), b.StartEnd(SID, 2, 7.0)):
        with pytest.raises(LeaseLost):
            await store.write(again)
    assert await store.ends() == [b.EndRow(SID, 1, "closed", 5.0, 6.0)]
    await store.write(b.FinishEnd(SID, 1))
    assert await store.ends() == []


async def test_an_unloaded_session_is_ended_once_and_fenced(store):
    await store.write(b.InsertSession(a_session(), "me"))
    assert await store.write(b.EndIdle(SID, "closed", 5.0, hook=True)) == [False], "it is open"
    assert await store.write(b.EndIdle("unknown", "closed", 5.0, hook=True)) == [False]
    await store.write(b.PatchSession(SID, {"status": "idle"}), b.EndLease(f"session:{SID}", 1))
    assert await store.write(b.EndIdle(SID, "closed", 6.0, hook=True)) == [True]
    assert await store.write(b.EndIdle(SID, "closed", 7.0, hook=True)) == [False]
    row = await store.session(SID)
    assert (row.status, row.reason) == ("closed", "closed")
    assert await store.ends() == [b.EndRow(SID, 2, "closed", 6.0)]
    with pytest.raises(LeaseLost):
        await store.write(b.Fence(f"session:{SID}", 1))
    await store.write(b.DeleteSession(SID))
    assert await store.ends() == []


@pytest.mark.parametrize("hook", [False, True])
async def test_what_a_dead_gateway_left_open_has_an_end(store, hook):
    for n, status in enumerate(("open", "idle", "closed")):
        row = a_session(id=f"20260101_000000_0000000{n}", status=status)
        await store.write(b.InsertSession(row, "me"))
    for _ in range(2):
        await store.write(b.SettleLeftovers("crash", 5.0, hook=hook))
    left = [b.EndRow("20260101_000000_00000000", 1, "crash", 5.0)]
    assert await store.ends() == (left if hook else [])


async def test_a_container_has_a_row_from_before_it_is_made_until_it_is_gone(store):
    rows = [b.ContainerRow(f"c{n}", SID, "i-1", float(n)) for n in (2, 1)]
    for row in rows:
        await store.write(b.InsertContainer(row))
    with pytest.raises(StoreError):
        await store.write(b.InsertContainer(rows[0]))
    assert await store.containers() == [rows[1], rows[0]]
    assert await store.write(b.EndContainer("c1", "gone", 5.0)) == [True]
    assert await store.write(
        b.EndContainer("c1", "again", 6.0),
    ) == [False]
    assert await store.write(b.EndContainer("c9", "never there", 6.0)) == [False]
    assert await store.containers() == [rows[0]]
    assert await store.write(b.PruneContainers(5.0)) == [0]
    assert await store.write(b.PruneContainers(5.5)) == [1]
    assert await store.containers() == [rows[0]], "what may be there is never forgotten"


async def test_nothing_is_made_by_a_gateway_that_has_lost_the_session(store):
    await store.write(b.InsertSession(a_session(), "me"))
    with pytest.raises(LeaseLost):
        await store.write(
            b.Fence(f"session:{SID}", 7), b.InsertContainer(b.ContainerRow("c1", SID, "i", 1.0))
        )
    assert await store.containers() == []


def an_upload(name, text=""):
    return Upload(
        id=f"id {name}", digest=name, kind="image", type="image/png", name=name, size=1, text=text
    )


async def test_contents_are_referred_to_from_the_draft_to_the_end_of_the_history(store):
    other = "20260101_000000_00000002"
    draft, waits = (an_upload("a"), an_upload("b", text="c")), (an_upload("w"),)
    turn = msgspec.structs.replace(a_turn(1, "queued"), files=waits)
    await store.write(
        b.InsertSession(a_session(draft=draft), "me"), b.InsertSession(a_session(other), "me"),
        b.InsertTurn(turn), b.HoldUploads(SID, ("a", "b", "c", "a")), b.HoldUploads(SID, ("w",)),
        b.HoldUploads(other, ("a",)),
    )  # fmt: skip
    assert (await store.session(SID)).draft == draft
    assert [row.files for row in await store.turns(SID)] == [waits]
    assert await store.uploads(SID) == dict.fromkeys("abcw", (0,))
    said = Message("user", "look", files=draft)
    await store.write(
        b.AppendItem(SID, b.ItemRow(1, "t1", "message", Message("user", "hi"))),
        b.AppendItem(SID, b.ItemRow(2, "t1", "message", said)),
        b.AppendItem(SID, b.ItemRow(3, "t1", "message", said)),
        b.PatchSession(SID, {"draft": ()}),
    )
    assert (await store.history(SID))[1].message == said
    assert (await store.session(SID)).draft == ()
    assert await store.uploads() == {
        "a": (0, 2, 3), "b": (0, 2, 3), "c": (0, 2, 3), "w": (0,),
    }  # fmt: skip
    assert (await store.write(b.ReleaseUploads(SID, ("a", "b", "x"))))[0] == 2
    assert (await store.write(b.DropItems(SID, 3)))[0] == 1
    assert await store.uploads(SID) == {"a": (2,), "b": (2,), "c": (0, 2), "w": (0,)}
    await store.write(b.DeleteSession(SID))
    assert await store.uploads() == {"a": (0,)} == await store.uploads(other)
    with pytest.raises(StoreError):
        await store.write(b.HoldUploads(SID, ("a",)))
