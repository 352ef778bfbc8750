"""The explorer itself: the order is a choice, choices are a word, and the shortest way is found."""

from __future__ import annotations

import asyncio
import random

import pytest

from proof.explore import explore
from proof.loop import ExploringLoop, Violation
from proof.oracles import require
from proof.scenarios import all_scenarios
from proof.schedules import Scenario, replay, run, shrink
from proof.seams import seams
from proof.strategies import FewDeviations, Given, Priorities, Walk
from proof.tokens import Token, pack, seeded, unpack
from tenure.lifecycle.threads import call_in_thread


@pytest.fixture(autouse=True)
def in_seams():
    with seams():
        yield


def scenario(body, faults=0):
    return Scenario("made-up", "for a test", body, faults=faults)


def token(how="d", mode="external", faults=0):
    return Token("made-up", mode, faults, how)


def test_the_usual_order_is_that_of_asyncio():
    seen = []

    async def body(loop):
        loop.exploring = True
        for n in range(3):
            loop.call_soon(seen.append, n)
        loop.outside("a request", lambda: seen.append("outside"))
        await asyncio.sleep(5.0)
        assert loop.time() == 1005.0

    assert not run(scenario(body), Given({}), token()).violation
    assert seen == [0, 1, 2, "outside"]


def test_time_passes_only_when_a_timer_is_chosen():
    async def body(loop):
        before = loop.time()
        for _ in range(50):
            await asyncio.sleep(0)
        require(loop.time() == before, "time passed")

    assert not run(scenario(body), Given({}), token()).violation


def test_a_thread_begins_and_delivers_at_moments_of_their_own():
    async def body(loop):
        loop.exploring = True
        ran = []
        answer = call_in_thread(ran.append, 1)
        other = call_in_thread(ran.append, 2)
        await asyncio.wait({answer, other})
        require(ran == [1, 2], f"{ran}")

    found = {run(scenario(body), Walk(n), token()).violation for n in range(50)}
    assert found == {"", "[2, 1]"}


def test_a_thread_that_touches_the_loop_is_found():
    async def body(loop):
        await call_in_thread(loop.call_soon, print)

    assert "call_soon_threadsafe" in run(scenario(body), Given({}), token()).violation


def test_what_can_never_end_is_found():
    async def body(loop):
        await loop.create_future()

    assert run(scenario(body), Given({}), token()).violation.startswith("V4: nothing happens")


def test_an_exception_that_nobody_takes_is_found():
    async def body(loop):
        loop.call_soon(lambda: 1 / 0)
        await asyncio.sleep(0)

    assert "division" in run(scenario(body), Given({}), token()).violation


def test_a_violation_that_code_swallows_is_still_one():
    async def body(loop):
        try:
            require(False, "swallowed")
        except AssertionError:
            await asyncio.sleep(0)

    assert run(scenario(body), Given({}), token()).violation == "swallowed"


async def lost_update(loop):
    """A counter that two read before either writes."""
    loop.exploring = True
    count = 0

    async def add():
        nonlocal count
        seen = count
        await loop.port("the disk")
        count = seen + 1

    tasks = []
    for name in ("a", "b"):
        loop.outside(f"{name} begins", lambda: tasks.append(loop.create_task(add())))
    await loop.quiet()
    require(count == len(tasks), f"lost: {count} of {len(tasks)}")


@pytest.mark.parametrize("kind", ["r", "p"])
def test_a_seed_finds_it_and_is_a_token(kind):
    made = scenario(lost_update)
    tokens = [token(seeded(kind, n)) for n in range(100)]
    bad = [t for t in tokens if replay(made, t).violation]
    assert 0 < len(bad) < 100
    again = Token.parse(str(bad[0]))
    assert again == bad[0]
    assert replay(made, again, tell=True).story == replay(made, again, tell=True).story


def test_the_search_goes_through_every_schedule_within_its_bound_once():
    made, search = scenario(lost_update), FewDeviations(2, random.Random(1))
    runs = []
    for deviations in search:
        outcome = run(made, Given(deviations), token())
        search.seen(outcome.widths)
        assert outcome.deviations == deviations
        runs.append(tuple(sorted(deviations.items())))
    assert search.exhausted
    assert len(runs) == len(set(runs)) > 10
    assert runs[0] == ()


def test_shrinking_leaves_what_is_needed():
    made = scenario(lost_update)
    # The usual order loses one too, as both begin before the disk answers.
    found = next(o for n in range(99) if (o := run(made, Walk(n), token())).violation)
    short, outcome = shrink(made, token(), found)
    assert outcome.violation
    assert len(unpack(short.how[1:])) <= len(found.deviations)
    assert replay(made, short).violation == outcome.violation


def test_deviations_are_packed_without_loss():
    rnd = random.Random(3)
    for _ in range(50):
        given = {rnd.randrange(100_000): rnd.randrange(1, 300) for _ in range(rnd.randrange(9))}
        assert unpack(pack(given)[1:]) == given


@pytest.mark.parametrize("text", ["", "x", "a~", "a~z0r1", "a~e0x1", "a~ex"])
def test_what_is_no_token_is_refused(text):
    with pytest.raises(ValueError, match=r"no token|no strategy"):
        Token.parse(text)


def test_priorities_do_not_starve_time_or_repeat_themselves():
    made = scenario(lost_update)
    ways = {tuple(run(made, Priorities(n), token()).choices) for n in range(30)}
    assert len(ways) > 5


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["external", "any"])
def test_schedules_repeat_exactly(mode):
    scenarios = list(all_scenarios().values())
    for made in [s for s in scenarios if s.subject != "pairs"] + scenarios[::23]:
        wanted = Token(made.name, mode, made.faults, seeded("r", 1))
        one, two = (replay(made, wanted, tell=True) for _ in range(2))
        assert one == two, made.name
        assert not one.violation


def test_a_fault_is_injected_and_told():
    async def body(loop):
        loop.exploring = True
        await loop.port("disk")
        require(not loop.fault("writing"), "the disk is full")

    found = [run(scenario(body, 1), Walk(n), token(faults=1), tell=True) for n in range(80)]
    told = [outcome.story for outcome in found if outcome.violation]
    assert told
    assert "! writing fails" in told[0]


def test_exploring_tells_each_kind_of_violation_once():
    tally = explore(scenario(lost_update), 200)
    assert list(tally.found) == ["lost: 1 of 2"]
    assert isinstance(Violation("x"), AssertionError)
    assert ExploringLoop.current is None
