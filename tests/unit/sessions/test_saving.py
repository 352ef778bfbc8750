"""The checkpoint of a turn: taken once for all who wait for it, and given back to nobody who left."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from tenure.errors import StoreFull
from tenure.sessions.saving import SLOW_S, TurnSaver, _overlap, give_back
from tenure.sessions.turns import LiveTurn
from tenure.testing.clock import settle
from tenure.testing.gates import Gate


class Keeper:
    """Checkpoints that are taken and given back when the test says so."""

    def __init__(self, error=None):
        self.gate, self.error = Gate(), error
        self.began = self.ended = 0

    async def take(self, scope, asked):
        self.began += 1
        try:
            await self.gate.park()
        finally:
            self.ended += 1
        if self.error:
            raise self.error

    async def restore(self, scope, session_id, ref, path, *, remove_new):
        await self.gate.park()
        counts = SimpleNamespace(restored_count=1, removed_count=0, problem_count=0)
        checkpoint = SimpleNamespace(id="c", kind="restore")
        return SimpleNamespace(outcome=counts, checkpoint=checkpoint, undo=SimpleNamespace(id="u"))


class Place:
    """What saving knows of a session."""

    id = "s"
    cwd = "/w"

    def __init__(self, clock, scope, keeper):
        self.ports = SimpleNamespace(clock=clock, checkpoints=keeper)
        self.scope = scope
        self.journal = self.notes = self
        self.said, self.told = [], []

    def transient(self, kind, payload, *, turn_id):
        self.said.append(payload["text"])

    def files_restored(self, label, payload):
        self.told.append(payload["checkpoint"])


def saver(clock, root, keeper):
    place = Place(clock, root, keeper)
    return place, TurnSaver(place, LiveTurn("t", 1, "go", 0.0), root, keeper)


async def test_one_that_leaves_does_not_end_it_for_the_others(root, clock):
    keeper = Keeper()
    place, save = saver(clock, root, keeper)
    first, second = asyncio.create_task(save()), asyncio.create_task(save())
    await keeper.gate.wait_parked()
    first.cancel()
    await settle()
    assert first.cancelled() and not second.done() and (keeper.began, keeper.ended) == (1, 0)
    keeper.gate.release()
    await second
    await save()
    assert keeper.began == 1, "once a turn"
    clock.advance(SLOW_S)
    assert place.said == [], "it is over: nothing is slow"


async def test_who_comes_after_all_have_left_takes_it_anew(root, clock):
    keeper = Keeper()
    _, save = saver(clock, root, keeper)
    first = asyncio.create_task(save())
    await keeper.gate.wait_parked()
    first.cancel()
    await settle()
    assert keeper.ended == 1, "nobody waits for it"
    keeper.gate.release()
    await save()
    assert (keeper.began, keeper.ended) == (2, 2)


@pytest.mark.parametrize("error", [StoreFull("No space is left."), ZeroDivisionError("a bug")])
async def test_what_cannot_be_saved_is_said_and_stops_nothing(root, clock, error, caplog):
    keeper = Keeper(error)
    place, save = saver(clock, root, keeper)
    keeper.gate.release()
    await save()
    (said,) = place.said
    assert said.startswith("no checkpoint: ") and str(error) in said


async def test_a_session_that_ends_while_files_are_given_back_is_not_told(root, clock):
    sessions = SimpleNamespace(scope=root, live=list)
    for ends in (False, True):
        keeper = Keeper()
        place = Place(clock, root.child("session"), keeper)
        giving = asyncio.create_task(give_back(sessions, place, "", "", remove_new=False))
        await keeper.gate.wait_parked()
        if ends:
            await place.scope.close()
        keeper.gate.release()
        assert (await giving).undo.id == "u"
        assert place.told == ([] if ends else ["c"])
        await place.scope.close()


def test_folders_that_share_files():
    assert _overlap("/a/b", "/a/b/") and _overlap("/a", "/a/b") and _overlap("/a/b/c", "/a/b")
    assert _overlap("/", "/a")
    assert not _overlap("/a/b", "/a/bc") and not _overlap("/a", "/b")
