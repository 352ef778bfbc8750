"""Everything that can be done to a session, each as one operation of somebody."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple

from proof.scenarios.house import OTHER, House
from proof.scenarios.people import Person
from tenure.sessions.reaper import in_use

LONG_AGO_S = 1e6
NOTE = "data:text/plain;base64,QSBub3RlLg=="
"""The same for everybody, so that it is kept once."""

Do = Callable[[House, Person], Coroutine[Any, Any, object]]


class Operation(NamedTuple):
    """One thing that somebody does.

    Attributes:
        name: in names of scenarios.
        do: does it; `Person` is whoever does.
        given: what it needs to find: idle, running, queued, asking or stored.
        left: nobody is attached when it comes.
        ends: the gateway is over after it.
    """

    name: str
    do: Do
    given: str = "idle"
    left: bool = False
    ends: bool = False


# --- what clients ask for -----------------------------------------------------------------------


async def create(_: House, who: Person) -> None:
    await who.call("session.create", title="another")


async def attach(house: House, who: Person) -> None:
    await who.call("session.attach", session_id=house.sid)


async def attach_and_go(house: House, who: Person) -> None:
    await who.call("session.attach", session_id=house.sid, close_on_disconnect=True)
    who.cut()


async def detach(house: House, _: Person) -> None:
    await house.window.call("session.detach", session_id=house.sid)


async def resume_lazy(house: House, who: Person) -> None:
    await who.call("session.resume", session_id=house.sid, lazy=True)


async def resume_eager(house: House, who: Person) -> None:
    await who.call("session.resume", session_id=house.sid, eager_build=True)


async def watch(house: House, who: Person) -> None:
    await who.call("session.resume", session_id=house.sid, role="viewer")


async def catch_up(house: House, who: Person) -> None:
    """Come back with an old cursor."""
    cursor = {"epoch": 1, "seq": 0}
    answer = await who.call("session.resume", session_id=house.sid, lazy=True, cursor=cursor)
    del answer


async def submit(house: House, who: Person) -> None:
    await who.call("prompt.submit", session_id=house.sid, text="And now?", key=who.name)


async def submit_again(house: House, who: Person) -> None:
    """The same prompt twice: the first answer was lost."""
    await who.call("prompt.submit", session_id=house.sid, text="Once", key="one key")


async def steer(house: House, who: Person) -> None:
    await who.call("session.steer", session_id=house.sid, text="Rather so.")


async def cut_in(house: House, who: Person) -> None:
    await who.call("prompt.submit", session_id=house.sid, text="Stop!", when_busy="interrupt")


async def interrupt(house: House, who: Person) -> None:
    await who.call("session.interrupt", session_id=house.sid)


async def answer(house: House, who: Person) -> None:
    await who.call("approval.respond", session_id=house.sid, choice="once")


async def unqueue(house: House, who: Person) -> None:
    waiting = sorted(house.accepted[house.sid])[-1:]
    for turn_id in waiting:
        await who.call("prompt.queue.remove", session_id=house.sid, turn_id=turn_id)


async def branch(house: House, who: Person) -> None:
    await who.call("session.branch", session_id=house.sid)


async def undo(house: House, who: Person) -> None:
    await who.call("session.undo", session_id=house.sid, turns=1)


async def compress(house: House, who: Person) -> None:
    await who.call("session.compress", session_id=house.sid, focus_topic="all")


async def switch(house: House, who: Person) -> None:
    await who.call("config.set", session_id=house.sid, key="model", value="scripted:other")


async def attach_file(house: House, who: Person) -> None:
    await who.call("file.attach", session_id=house.sid, data_url=NOTE, name=f"{who.name}.txt")


async def submit_file(house: House, who: Person) -> None:
    await attach_file(house, who)
    await submit(house, who)


async def take_off(house: House, who: Person) -> None:
    """Attach a file, and think better of it."""
    await attach_file(house, who)
    await who.call("prompt.files.remove", session_id=house.sid, id=f"{who.name}.txt")


async def close(house: House, who: Person) -> None:
    await who.call("session.close", session_id=house.sid)


async def delete(house: House, who: Person) -> None:
    await who.call("session.delete", session_id=house.sid)


async def cut(house: House, _: Person) -> None:
    house.window.cut()


async def profile_open(_: House, who: Person) -> None:
    await who.call("session.create", profile=OTHER)


async def profile_close(house: House, who: Person) -> None:
    """The last session of a profile ends, and the profile with it."""
    made = await who.call("session.create", profile=OTHER)
    if made is not None:
        await who.call("session.close", session_id=made["session_id"])
    await house.sessions.profiles.open.end_idle()


# --- what the gateway does by itself ------------------------------------------------------------


async def unload(house: House, _: Person) -> None:
    """As the reaper decides it: in one step, from what is true in that step."""
    session = house.session
    if session is not None and session.scope.admits and not in_use(session):
        house.tell("the session is unloaded")
        house.sessions.unload(session, "unused")


async def reap(house: House, _: Person) -> None:
    """The reaper looks, long after anybody was here."""
    for session in house.sessions.live():
        session.attachments.left_at -= LONG_AGO_S
        session.used_at -= LONG_AGO_S
    house.tell("the reaper looks")
    house.sessions.reaper.look()


async def evict(house: House, _: Person) -> None:
    house.tell("room is made for many sessions")
    house.sessions.reaper.relieve(room=10**6)


async def tidy(house: House, _: Person) -> None:
    """As upkeep does: contents to which nothing refers are removed."""
    house.tell("files are tidied up")
    ports = house.sessions.ports
    assert ports.uploads is not None
    await ports.uploads.sweep(ports.store, house.gw.root)


async def rest(house: House, _: Person) -> None:
    if (session := house.session) is not None:
        house.tell("the session is laid to rest")
        session.rest()


async def drain(house: House, _: Person) -> None:
    house.tell("the gateway stops")
    house.ended = True
    await house.sessions.drain("shutdown", 12.0)


async def crash(house: House, _: Person) -> None:
    house.crash()


OPERATIONS = {
    op.name: op
    for op in (
        Operation("create", create),
        Operation("attach", attach),
        Operation("attach-and-go", attach_and_go, left=True),
        Operation("detach", detach),
        Operation("resume-lazy", resume_lazy, "stored"),
        Operation("resume-eager", resume_eager, "stored"),
        Operation("watch", watch, "stored"),
        Operation("catch-up", catch_up, "stored"),
        Operation("submit", submit),
        Operation("submit-again", submit_again),
        Operation("steer", steer, "running"),
        Operation("cut-in", cut_in, "running"),
        Operation("interrupt", interrupt, "running"),
        Operation("answer", answer, "asking"),
        Operation("unqueue", unqueue, "queued"),
        Operation("branch", branch),
        Operation("undo", undo),
        Operation("compress", compress),
        Operation("switch", switch),
        Operation("attach-file", attach_file),
        Operation("submit-file", submit_file),
        Operation("take-off", take_off),
        Operation("tidy", tidy),
        Operation("rest", rest),
        Operation("unload", unload, left=True),
        Operation("reap", reap, left=True),
        Operation("evict", evict, left=True),
        Operation("close", close),
        Operation("delete", delete),
        Operation("cut", cut),
        Operation("profile-open", profile_open),
        Operation("profile-close", profile_close),
        Operation("drain", drain, ends=True),
        Operation("crash", crash, ends=True),
    )
}
"""All of them, by name."""
