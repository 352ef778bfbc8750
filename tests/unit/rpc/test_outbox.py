"""The outbox: direct while it can be, merged while it streams, bounded, in order."""

from __future__ import annotations

import msgspec
import pytest

from tenure.protocol.messages import EventParams
from tenure.rpc import outbox as module
from tenure.rpc.outbox import STALL_S, WINDOW_BYTES, WINDOW_S, Outbox
from tenure.testing.clock import ManualClock, settle


class Wire:
    """A transport that takes frames at once while it is `open`."""

    def __init__(self) -> None:
        self.open = True
        self.direct: list[bytes] = []
        self.at_once: list[bytes] = []

    def send_nowait(self, frame: bytes, *, at_once: bool = False) -> bool:
        if self.open:
            self.direct.append(frame)
            self.at_once += [frame] if at_once else []
        return self.open

    @property
    def shown(self):
        return [told(frame) for frame in self.direct]


def told(frame: bytes):
    params = msgspec.json.decode(frame)["params"]
    return params["payload"].get("text", params["type"])


def text(piece: str, session: str = "s") -> EventParams:
    return EventParams("message.delta", session, {"text": piece}, transient=True)


def event(kind: str = "tool.start") -> EventParams:
    return EventParams(kind, "s", {})


@pytest.fixture
def world():
    clock, wire = ManualClock(), Wire()
    return clock, wire, Outbox(clock, wire.send_nowait)


async def taken(box: Outbox) -> list[str]:
    """Everything that waits, as its consumer gets it."""
    found = []
    while len(box):
        found.append(told(await box.get()))
        box.sending = False
    return found


def test_while_nothing_waits_frames_go_at_once(world):
    _, wire, box = world
    box.put_event(event())
    box.put_answer(b"{}")
    box.put_event(text("a"))
    assert len(wire.direct) == 3 and len(box) == 0


async def test_text_in_the_window_is_merged_and_comes_at_its_end(world, root):
    clock, wire, box = world
    frames = []

    async def consume():
        while frame := await box.get():
            frames.append(told(frame))
            box.sending = False

    task = root.spawn(consume(), name="writer")
    await settle()
    for piece in "abcd":
        box.put_event(text(piece))
    await settle()
    assert wire.shown == ["a"] and frames == []
    assert clock.pending == 1, "one timer for all of them"
    clock.advance(WINDOW_S / 2)
    box.put_event(text("e"))
    await settle()
    assert frames == []
    clock.advance(WINDOW_S / 2)
    await settle()
    assert frames == ["bcde"]
    box.put_event(text("f"))
    await settle()
    assert frames == ["bcde"] and wire.shown == ["a"], "what was merged begins a window, too"
    box.put_event(event())
    await settle()
    assert frames == ["bcde", "f", "tool.start"], "anything else ends it"
    assert clock.pending == 0
    clock.advance(1.0)
    box.put_event(text("g"))
    assert wire.shown == ["a", "g"]
    assert clock.pending == 0
    await task.release()


def test_the_first_words_after_something_else_go_at_once(world):
    _, wire, box = world
    for one in (text("last words"), event("message.complete"), event("message.start"), text("a")):
        box.put_event(one)
    assert wire.shown == ["last words", "message.complete", "message.start", "a"]
    assert wire.at_once == [wire.direct[0], wire.direct[3]]


async def test_of_another_session_or_kind_it_is_not_merged(world):
    _, wire, box = world
    wire.open = False
    for one in (text("a"), text("b"), text("c", "t"), event(), text("d"), text("e")):
        box.put_event(one)
    assert await taken(box) == ["ab", "c", "tool.start", "de"]


async def test_nothing_overtakes_what_waits_or_is_being_sent(world):
    _, wire, box = world
    wire.open = False
    box.put_event(event("first"))
    wire.open = True
    box.put_event(event("second"))
    assert wire.direct == []
    assert told(await box.get()) == "first"
    box.put_event(event("third"))
    box.put_answer(msgspec.json.encode({"params": {"type": "answer", "payload": {}}}))
    assert wire.direct == [] and box.sending
    box.sending = False
    assert await taken(box) == ["second", "third", "answer"]
    box.sending = True
    box.put_event(event("fourth"))
    assert wire.direct == [] and len(box) == 1


async def test_text_is_not_held_for_what_else_a_turn_brings(world):
    _, wire, box = world
    box.put_event(event())
    box.put_event(text("a"))
    box.put_answer(b"{}")
    assert len(wire.direct) == 3 and wire.at_once == wire.direct[1:2]


async def test_over_its_bytes_it_takes_no_events_and_keeps_answers(world, monkeypatch):
    _, wire, box = world
    monkeypatch.setattr(module, "EVENT_BYTES_MAX", 1_000)
    wire.open = False
    for n in range(1_000 // 64 + 1):
        assert not box.overflowed
        box.put_event(event(f"e{n}"))
    box.put_answer(msgspec.json.encode({"params": {"type": "answer", "payload": {}}}))
    assert box.overflowed
    kept = await taken(box)
    assert kept[-1] == "answer" and len(kept) == 1_000 // 64 + 1
    box.put_event(event("late"))
    assert len(box) == 0, "events have been lost: none that follows may hide it"
    assert await box.get() == b""


async def test_a_peer_that_takes_nothing_for_too_long_is_too_slow(world):
    clock, wire, box = world
    clock.advance(10 * STALL_S)
    wire.open = False
    box.put_event(event())
    clock.advance(STALL_S)
    box.put_event(event())
    assert not box.overflowed
    clock.advance(0.1)
    box.put_event(event())
    assert box.overflowed


async def test_one_that_takes_a_little_is_not(world):
    clock, wire, box = world
    wire.open = False
    for _ in range(10):
        box.put_event(event())
        box.put_event(event())
        clock.advance(STALL_S * 0.9)
        await box.get()
        box.sending = False
    assert not box.overflowed


async def passes(waiting, root) -> bool:
    """Whether it need not wait."""
    task = root.spawn(waiting, name="waits").value
    await settle()
    done = task.done()
    task.cancel()
    return done


async def test_too_many_answers_stop_the_reading(world, root, monkeypatch):
    _, wire, box = world
    monkeypatch.setattr(module, "ANSWER_BYTES_MAX", 10)
    wire.open = False
    box.put_answer(b"x" * 11)
    assert not box._room.is_set()
    await box.get()
    assert await passes(box.room(), root)
    box.put_answer(b"x" * 11)
    assert not await passes(box.room(), root)
    box.give_up()
    box.put_answer(b"x" * 11)
    assert await passes(box.room(), root), "the reader is to meet the end"
    waiting = len(box)
    box.put_event(event())
    assert len(box) == waiting


async def test_a_peer_that_waits_for_its_end_is_told_at_once(world, root):
    _, wire, box = world
    wire.open = False
    reader = root.spawn(box.get(), name="writer").value
    await settle()
    box.overflow()
    await settle()
    assert reader.done() and reader.result() == b""


async def test_much_wakes_its_consumer_once(world, root):
    _, wire, box = world
    reader = root.spawn(box.get(), name="writer").value
    await settle()
    wire.open = False
    for n in range(3):
        box.put_event(event(f"e{n}"))
    await settle()
    assert told(reader.result()) == "e0"


async def test_text_right_behind_an_answer_does_not_hold_it(world, root):
    _, wire, box = world
    reader = root.spawn(box.get(), name="writer").value
    await settle()
    box.put_event(text("a"))
    wire.open = False
    box.put_answer(b"{}")
    box.put_event(text("b"))
    await settle()
    assert reader.done() and reader.result() == b"{}"


async def test_a_window_takes_no_more_than_a_person_reads_in_it(world, root):
    _, _, box = world
    reader = root.spawn(box.get(), name="writer").value
    await settle()
    box.put_event(text("a"))
    box.put_event(text("b" * WINDOW_BYTES))
    await settle()
    assert reader.done() and told(reader.result()) == "b" * WINDOW_BYTES


async def test_the_end_leaves_no_window_open(world, root):
    clock, _, box = world
    task = root.spawn(box.get(), name="writer")
    await settle()
    for piece in "ab":
        box.put_event(text(piece))
    assert clock.pending == 1
    await task.release()
    box.give_up()
    assert clock.pending == 0


async def test_without_a_consumer_no_window_is_waited_for(world, root):
    clock, _, box = world
    task = root.spawn(box.get(), name="writer")
    await settle()
    await task.release()
    for piece in "ab":
        box.put_event(text(piece))
    assert clock.pending == 0


async def test_much_at_once_waits_until_little_waits(world, root, monkeypatch):
    _, wire, box = world
    monkeypatch.setattr(module, "EVENT_BYTES_LOW", 100)
    wire.open = False
    for n in range(4):
        box.put_event(event(f"e{n}"))
    leaves, waits = (root.spawn(box.low(), name="replay").value for _ in range(2))
    await settle()
    leaves.cancel()  # and takes nobody along
    await box.get()
    await box.get()
    await settle()
    assert not waits.done()
    await box.get()
    await settle()
    assert waits.done() and not waits.cancelled()


@pytest.mark.parametrize("end", ["overflow", "give_up"])
async def test_nobody_waits_for_a_peer_that_is_given_up(world, root, monkeypatch, end):
    _, wire, box = world
    monkeypatch.setattr(module, "EVENT_BYTES_LOW", 100)
    wire.open = False
    for n in range(4):
        box.put_event(event(f"e{n}"))
    waiting = root.spawn(box.low(), name="replay").value
    await settle()
    getattr(box, end)()
    assert await passes(box.low(), root)
    assert waiting.done() and waiting.exception() is None
