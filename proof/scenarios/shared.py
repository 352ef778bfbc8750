"""Two sessions that share something: a profile, a connection, memory, a grant, the way in."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from proof.loop import ExploringLoop
from proof.oracles import require
from proof.scenarios.house import CONFIG, MODEL, OTHER, House
from proof.scenarios.operations import OPERATIONS
from proof.scenarios.people import Person
from proof.schedules import Scenario
from tenure.config import Config, LimitsConfig
from tenure.settings import CheckpointsConfig

Body = Callable[[House], Coroutine[Any, Any, None]]
FEW = Config(checkpoints=CheckpointsConfig(enabled=False), limits=LimitsConfig(loaded_max=2))
"""More than two sessions are not kept in memory."""
SCENARIOS: list[Scenario] = []


def shared(
    *,
    config: Config = CONFIG,
    faults: int = 1,
    into: list[Scenario] = SCENARIOS,
    subject: str = "shared",
) -> Callable[[Body], Body]:
    """Make a scenario of a function over an open house."""

    def made(body: Body) -> Body:
        async def run(loop: ExploringLoop) -> None:
            house = House(loop)
            await house.open(config)
            await body(house)
            await house.finish()

        name = body.__name__.replace("_", "-")
        about = (body.__doc__ or name).strip()
        into.append(Scenario(name, about, run, 3.0, faults, subject))
        return body

    return made


async def two(house: House, **params: Any) -> tuple[Person, str, str]:
    """One person with two sessions; the house is about the first."""
    window = house.window = await house.begin(**params)
    other = await window.call("session.create", **params)
    await house.settle()
    return window, house.sid, other["session_id"]


def asks(who: Person, method: str, **params: Any) -> Callable[[], Coroutine[Any, Any, Any]]:
    """An operation that is one request."""
    return partial(who.call, method, **params)


@shared()
async def one_profile_two_closes(house: House) -> None:
    """Two sessions of a profile are closed at once, and the profile with the last of them."""
    window, one, other = await two(house, profile=OTHER)
    await house.race(
        one=asks(window, "session.close", session_id=one),
        other=asks(house.person("A"), "session.close", session_id=other),
        profile=house.sessions.profiles.open.end_idle,
    )


@shared()
async def one_profile_and_its_last_session(house: House) -> None:
    """The last session of a profile is closed as it works; the profile when nobody uses it."""
    window = await house.begin(profile=OTHER)
    house.loop.held = frozenset({MODEL})
    await window.call("prompt.submit", session_id=house.sid, text="Think.")
    await house.race(
        close=asks(window, "session.close", session_id=house.sid),
        profile=house.sessions.profiles.open.end_idle,
        again=house.sessions.profiles.open.end_idle,
    )


@shared()
async def one_profile_a_close_and_a_prompt(house: House) -> None:
    """One session of a profile is closed while the other stores what is said in it."""
    window, one, other = await two(house, profile=OTHER)
    await house.race(
        close=asks(window, "session.close", session_id=one),
        submit=asks(house.person("A"), "prompt.submit", session_id=other, text="Still here?"),
        profile=house.sessions.profiles.open.end_idle,
    )


@shared()
async def one_profile_a_delete_and_a_new_one(house: House) -> None:
    """The last session of a profile is deleted while another one is created in it."""
    window = await house.begin(profile=OTHER)
    await house.race(
        delete=asks(window, "session.delete", session_id=house.sid),
        create=asks(house.person("A"), "session.create", profile=OTHER),
        profile=house.sessions.profiles.open.end_idle,
    )


@shared()
async def one_profile_opened_by_two(house: House) -> None:
    """A profile is opened by two who come at once; one of them goes again."""
    house.window = await house.begin()
    a, b = house.person("A"), house.person("B")
    await house.race(
        a=asks(a, "session.create", profile=OTHER, close_on_disconnect=True),
        b=asks(b, "session.list", profile=OTHER),
        again=asks(b, "session.create", profile=OTHER),
        gone=partial(_cut, a),
    )


async def _cut(who: Person) -> None:
    who.cut()


@shared()
async def one_profile_read_while_it_closes(house: House) -> None:
    """Somebody reads a profile's history while its last session goes."""
    window = await house.begin(profile=OTHER)
    await house.race(
        close=asks(window, "session.close", session_id=house.sid),
        read=asks(house.person("A"), "session.history", session_id=house.sid, profile=OTHER),
        resume=asks(house.person("B"), "session.resume", session_id=house.sid, profile=OTHER),
        profile=house.sessions.profiles.open.end_idle,
    )


@shared()
async def one_connection_of_two_sessions(house: House) -> None:
    """A connection with two sessions goes while another takes over one of them."""
    window, one, other = await two(house, close_on_disconnect=True)
    await house.race(
        cut=partial(_cut, window),
        rescue=asks(house.person("A"), "session.attach", session_id=one),
        submit=asks(house.person("B"), "prompt.submit", session_id=other, text="Hello?"),
    )


@shared()
async def two_who_leave_at_one_moment(house: House) -> None:
    """Two owners who wish the session to end with them go at once: it ends."""
    window = await house.begin(close_on_disconnect=True)
    a = house.person("A")
    await a.call("session.attach", session_id=house.sid, close_on_disconnect=True)
    await house.race(
        one=partial(_cut, window),
        other=partial(_cut, a),
        busy=asks(window, "session.activate", session_id=house.sid),  # their ends take time
        too=asks(a, "session.activate", session_id=house.sid),
    )
    await house.settle()
    gone = house.crashed or house.session is None
    require(gone, "V8: two who left at one moment have left the session to each other")


@shared(faults=0)
async def a_taker_over(house: House) -> None:
    """An owner leaves while another attaches: the session lives exactly if somebody listens."""
    window = await house.begin(close_on_disconnect=True)
    a = house.person("A")
    await house.race(
        leave=partial(_cut, window), attach=asks(a, "session.attach", session_id=house.sid)
    )
    await house.settle()
    require(not a.closed, "V8: the session ended although somebody else listened")
    require(house.session is not None or not a.cursors, "V8: who listens has lost the session")


@shared()
async def five_who_resume(house: House) -> None:
    """Five resume one stored session at once: one incarnation, one build."""
    house.window = await house.begin()
    await house.window.call("session.detach", session_id=house.sid)
    session = house.session
    assert session is not None
    house.sessions.unload(session, "unused")
    await house.settle()
    picks = house.gw.picker.picks
    people = [house.person(f"P{n}") for n in range(5)]
    await house.race(
        **{p.name: asks(p, "session.resume", session_id=house.sid, lazy=False) for p in people}
    )
    await house.settle()
    built = house.gw.picker.picks - picks
    failed = any(person.refusals for person in people) or house.stores["default"].failed
    cut = any(not person.online for person in people)
    require(built <= 1 or failed or cut, f"V5: {built} builds for one session")


@shared(config=FEW)
async def room_for_two_sessions(house: House) -> None:
    """A third session comes where two fit: one that nobody uses makes room, none that is used."""
    window, one, other = await two(house)
    await window.call("session.detach", session_id=one)
    a, b = house.person("A"), house.person("B")
    await house.race(
        third=asks(a, "session.create"),
        back=asks(b, "session.resume", session_id=one, lazy=True),
        submit=asks(window, "prompt.submit", session_id=other, text="Busy."),
        detach=asks(window, "session.detach", session_id=other),
    )


@shared()
async def one_grant_of_two_sessions(house: House) -> None:
    """Two sessions ask at once; both are answered, one of them by two people."""
    window, one, other = await two(house)
    for sid in (one, other):
        await window.call("prompt.submit", session_id=sid, text="please act")
    await house.settle()
    a, b = house.person("A"), house.person("B")
    await house.race(
        one=asks(window, "approval.respond", session_id=one, choice="session"),
        again=asks(a, "approval.respond", session_id=one, choice="deny"),
        other=asks(b, "approval.respond", session_id=other, choice="once"),
    )


@shared()
async def a_parent_and_its_branch(house: House) -> None:
    """A session is deleted while a branch of it is made, and the branch works."""
    window = await house.begin()
    a = house.person("A")

    async def branch() -> None:
        made = await a.call("session.branch", session_id=house.sid)
        if made is not None:
            await a.call("prompt.submit", session_id=made["session_id"], text="On my own.")

    await house.race(branch=branch, delete=asks(window, "session.delete", session_id=house.sid))


@shared()
async def a_stop_in_the_middle_of_two_turns(house: House) -> None:
    """The gateway stops while two sessions work and a third is being opened."""
    window, one, other = await two(house)
    house.loop.held = frozenset({MODEL})
    for sid in (one, other):
        await window.call("prompt.submit", session_id=sid, text="Think.")
    a = house.person("A")
    await house.race(
        drain=partial(OPERATIONS["drain"].do, house, a),
        create=asks(a, "session.create"),
        cut=partial(_cut, window),
    )


@shared()
async def a_kill_in_the_middle_of_two_turns(house: House) -> None:
    """The gateway is killed while two sessions work; the next one takes both up, once."""
    window, one, other = await two(house)
    house.loop.held = frozenset({MODEL})
    for sid in (one, other):
        await window.call("prompt.submit", session_id=sid, text="Think.")
        await window.call("prompt.submit", session_id=sid, text="And then.")
    a = house.person("A")
    await house.race(
        crash=partial(OPERATIONS["crash"].do, house, a),
        close=asks(a, "session.close", session_id=one),
        submit=asks(a, "prompt.submit", session_id=other, text="One more."),
    )
