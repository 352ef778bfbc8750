"""Who listens: each event once and in order, whatever answers are on their way."""

from __future__ import annotations

import pytest

from tenure.protocol.messages import EventParams
from tenure.sessions import attachments as module
from tenure.sessions.attachments import Attachment, Attachments, Role
from tenure.testing.clock import ManualClock


class Heard(list):
    """A listener that keeps the numbers of what it hears."""

    overflows = 0

    def publish(self, event: EventParams) -> None:
        self.append(event.seq)

    def overflow(self) -> None:
        self.overflows += 1


def event(seq: int) -> EventParams:
    return EventParams("x", "s", {}, 1, seq)


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.fixture
def one(heard) -> Attachment:
    return Attachment(heard, 1)


def test_what_is_held_has_a_limit(one, heard, monkeypatch):
    monkeypatch.setattr(module, "HELD_MAX", 3)
    one.hold()
    for seq in range(1, 5):
        one.publish(event(seq))
    assert heard.overflows == 1
    one.let_go()
    assert heard == []


def test_what_an_answer_contains_is_not_told_again(one, heard):
    one.hold()
    one.publish(event(4))
    one.publish(event(5))
    one.skip_to(4)
    one.let_go()
    one.publish(event(0))
    assert heard == [5, 0], "what streams has no number, and is told"


def test_an_older_answer_does_not_take_the_cursor_back(one, heard):
    one.skip_to(5)
    one.skip_to(3)
    one.publish(event(4))
    assert heard == []


def test_what_a_snapshot_contains_is_dropped_also_what_streams(one, heard):
    one.hold()
    for seq in (4, 0, 5):
        one.publish(event(seq))
    one.forget_held(4)
    one.let_go()
    assert heard == [5]


def test_two_answers_at_once_let_go_together(one, heard):
    one.hold()
    one.publish(event(1))
    one.hold()
    one.let_go()
    one.publish(event(2))
    assert heard == []
    one.let_go()
    assert heard == [1, 2]


def test_who_was_not_answered_hears_nothing_of_what_was_held(one, heard):
    one.told = False
    one.hold()
    one.publish(event(1))
    one.let_go()
    assert heard == []


async def test_attaching_again_changes_role_and_flag_alone(root, heard):
    attachments, scope = Attachments(ManualClock()), root.child("connection")
    first = attachments.attach(heard, scope, "s", close_on_disconnect=True)
    again = attachments.attach(heard, scope, "s", role=Role.VIEWER)
    assert again is first and len(attachments) == 1
    assert again.value.close_on_disconnect, "not said again, so as it was"
    assert not attachments.owned_by(heard)
    assert not attachments.owned_by(Heard())
    attachments.attach(heard, scope, "s")
    assert attachments.owned_by(heard)
    attachments.publish(event(1))
    assert heard == [1]


async def test_only_the_last_to_leave_leaves_nobody(root, heard):
    left: list[str] = []
    clock = ManualClock()
    attachments, scope = Attachments(clock), root.child("connection")
    attachments.on_empty = left.append
    attachments.attach(heard, scope, "s")
    attachments.attach(Heard(), scope, "s")
    attachments.detach(heard)
    assert left == []
    clock.advance(5)
    attachments.clear()
    assert (left, attachments.left_at) == (["s"], clock.monotonic())
    attachments.publish(event(1))
    assert heard == []


async def test_a_leaving_ends_a_session_only_where_that_was_asked_and_no_owner_stays(root):
    def attached(*flags: tuple[Role, bool]) -> tuple[Attachments, list[Attachment]]:
        attachments, scope = Attachments(ManualClock()), root.child("connection")
        return attachments, [
            attachments.attach(Heard(), scope, "s", role=role, close_on_disconnect=flag).value
            for role, flag in flags
        ]

    viewer, owner = Role.VIEWER, Role.OWNER
    for flags, ends in [
        ([(owner, True)], True),
        ([(owner, False)], False),
        ([(viewer, True)], False),
        ([(owner, True), (viewer, True)], True),
        ([(owner, True), (owner, False)], False),
    ]:
        attachments, (leaving, *_) = attached(*flags)
        assert attachments.left_by(leaving) is ends, flags


async def test_all_hear_and_none_after_the_end_of_the_session(root):
    attachments, listeners = Attachments(root.clock), [Heard(), Heard()]
    for listener in listeners:
        attachments.attach(listener, root, "s")
    attachments.publish(event(1))
    assert listeners == [[1], [1]]
    attachments.clear()
    attachments.publish(event(2))
    assert listeners == [[1], [1]]
    assert [entry.kind for entry in root.census()] == []
