"""Which session goes, and in which order: decided from their state, by fakes of them."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tenure.config import LimitsConfig
from tenure.sessions.reaper import SCAN_S, Reaper
from tenure.testing.clock import settle

LIMITS = LimitsConfig(orphan_grace_s=20, idle_s=100, loaded_max=100, history_mib=1)
MIB = 1 << 20


class Attached(list):
    """How many listen, and since when nobody does."""

    left_at = 0.0


class Session:
    """A live session, whose history takes a MiB."""

    def __init__(self, sessions: Sessions, name: str) -> None:
        self.id, self.pins, self.working, self.has_background = name, 0, False, False
        self.attachments = Attached()
        self.attachments.left_at = self.used_at = sessions.ports.clock.monotonic()
        self.scope = SimpleNamespace(admits=True)
        self.rested = False
        self._sessions = sessions

    def rest(self) -> None:
        if not self.rested:
            self._sessions.ports.memory.histories.held_bytes -= MIB
        self.rested = True


class Sessions:
    """A registry of those."""

    def __init__(self, clock) -> None:
        self.there: dict[str, Session] = {}
        self.unloaded: list[str] = []
        self.limits = LIMITS
        self.ports = SimpleNamespace(
            clock=clock,
            config=lambda: SimpleNamespace(limits=self.limits),
            memory=SimpleNamespace(histories=SimpleNamespace(held_bytes=0)),
        )

    def __len__(self) -> int:
        return len(self.there)

    def live(self) -> list[Session]:
        return list(self.there.values())

    def find(self, name: str) -> Session | None:
        return self.there.get(name)

    def unload(self, session: Session, why: str) -> bool:
        self.unloaded.append(session.id)
        session.scope.admits = False
        return True

    def add(self, *names: str) -> list[Session]:
        for name in names:
            self.there[name] = Session(self, name)
            self.ports.memory.histories.held_bytes += MIB
        return [self.there[name] for name in names]

    def limit(self, **limits) -> None:
        self.limits = LimitsConfig(
            **{"orphan_grace_s": 20, "idle_s": 100, "loaded_max": 100, "history_mib": 99, **limits}
        )


@pytest.fixture
def sessions(clock) -> Sessions:
    found = Sessions(clock)
    found.limit()
    return found


@pytest.fixture
def reaper(sessions) -> Reaper:
    return Reaper(sessions)


def test_the_grace_and_the_idle_time_must_both_be_over(sessions, reaper, clock):
    left, used, both = sessions.add("left", "used", "both")
    clock.advance(200)
    left.attachments.left_at = clock.monotonic() - 19
    used.used_at = clock.monotonic() - 99
    reaper.look()
    assert sessions.unloaded == [both.id]


@pytest.mark.parametrize("why", ["attached", "pinned", "working", "background", "closing"])
def test_what_is_in_use_stays(sessions, reaper, clock, why):
    (session,) = sessions.add("a")
    clock.advance(1000)
    if why == "attached":
        session.attachments.append("a client")
    session.pins = int(why == "pinned")
    session.working, session.has_background = why == "working", why == "background"
    session.scope.admits = why != "closing"
    reaper.look()
    assert sessions.unloaded == []
    sessions.limit(loaded_max=0)
    reaper.left("a")
    reaper.relieve()
    assert sessions.unloaded == []
    assert ("a" in reaper._unattached) == (why != "attached")


def test_what_was_left_longest_ago_makes_room_and_no_more_than_is_needed(sessions, reaper):
    sessions.add("a", "b", "c")
    for name in ("a", "b", "c", "a", "unknown"):
        reaper.left(name)
    assert list(reaper._unattached) == ["b", "c", "a"]
    sessions.limit(loaded_max=3)
    reaper.relieve(room=1)
    assert sessions.unloaded == ["b"]
    reaper.gone("b")
    assert list(reaper._unattached) == ["c", "a"]


def test_each_look_holds_the_budgets_as_well(sessions, reaper):
    sessions.add("a", "b")
    for name in "ab":
        reaper.left(name)
    sessions.limit(loaded_max=1)
    reaper.look()
    assert sessions.unloaded == ["a"]


def test_what_is_unloaded_for_its_memory_counts_no_more(sessions, reaper):
    sessions.add("a", "b", "c")
    for name in "abc":
        reaper.left(name)
    sessions.limit(history_mib=2)
    reaper.relieve()
    assert sessions.unloaded == ["a"]


def test_the_longest_unused_are_laid_to_rest_until_the_budget_holds(sessions, reaper, clock):
    clock.advance(2 * SCAN_S)
    new, old, middle = found = sessions.add("new", "old", "middle")
    for session, age in ((new, 1), (old, 3), (middle, 2)):
        session.attachments.append("a client")
        session.used_at -= age
    sessions.limit(history_mib=2)
    reaper.relieve()
    assert [s.id for s in found if s.rested] == ["old"]
    assert sessions.unloaded == []
    sessions.limit(history_mib=1)
    reaper.relieve()
    assert not middle.rested, "all were looked at a moment ago"
    clock.advance(SCAN_S)
    reaper.relieve()
    assert [s.id for s in found if s.rested] == ["old", "middle"]


def test_a_look_at_the_budget_that_finds_it_held_delays_no_other(sessions, reaper, clock):
    clock.advance(2 * SCAN_S)
    (session,) = sessions.add("a")
    session.attachments.append("a client")
    reaper.relieve()
    sessions.limit(history_mib=0)
    reaper.relieve()
    assert session.rested


async def test_a_gateway_without_sessions_does_not_look(sessions, reaper, clock, root):
    root.spawn(reaper.run(), name="reaper")
    await settle()
    assert (clock.pending, reaper.looks) == (0, 0)
    sessions.add("a")
    reaper.session_added()
    await settle()
    assert (clock.pending, reaper.looks) == (1, 0)
    clock.advance(9)
    await settle()
    assert reaper.looks == 0
    clock.advance(1)
    await settle()
    assert reaper.looks == 1, "twice in the grace"
