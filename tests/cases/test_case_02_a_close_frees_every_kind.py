"""Case 2: the close of a session frees every kind of thing, which nobody has to list.

One turn takes one of each; after the close nothing is held for the session, and the gateway's
process has exactly the descriptors, threads, children, files and groups that it had before.
"""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest

from support.boxes import needs_bwrap
from support.cgroup import real_place
from support.commands import Place
from support.everything import (
    Everything,
    Session,
    call,
    command_of,
    declare,
    everything,
    sleepers,
    sleeping,
    until,
)
from support.needs import need
from tenure.processes.cgroups import REAL
from tenure.processes.procfs import all_stats, with_descendants

pytestmark = [pytest.mark.slow, needs_bwrap]
ROUNDS = 3
KINDS = {
    "background": "a child",
    "terminal": "a terminal",
    "sandbox": "the folders of its boxes",
    "browser context": "a part of the browser",
    "tool server": "its lease",
    "limits": "its control group",
    "task": "what runs for it",
}


@pytest.fixture
def place(tmp_path) -> Place:
    need("chromium")
    place = Place(tmp_path)
    declare(place, "own")
    declare(place, "lent", shared=True)
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    place.extra["TMPDIR"] = str(temporary)
    return place


def seen(place: Place) -> str:
    """The folder in which the servers note what they do; the one that is lent has another one."""
    return f'write = ["{place.work}"]\n'


def steps(world: Everything) -> list[Any]:
    here = f"http://127.0.0.1:{world.site.port}/"
    return [
        call("background", action="start", command=sleeping("job")),
        call("terminal", action="open", command=sleeping("term")),
        call("browser", action="navigate", url=here),
        call("mcp__own__echo", text="own"),
        call("mcp__lent__echo", text="lent"),
        call("web_fetch", url=here),
        call("shell", command="echo x > made; mktemp"),
        call("delegate", tasks=[{"goal": "quick"}]),
        {"text": "All taken."},
    ]


def state(world: Everything) -> dict[str, Any]:
    """What the system has of the gateway."""
    pid = world.served.pid
    stats = [stat for stat in all_stats() if not stat.gone]
    tree = with_descendants([stat for stat in stats if stat.pid == pid], stats)
    place = real_place()
    temporary = Path(world.place.extra["TMPDIR"])
    return {
        "descriptors": sorted(
            _named(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")
        ),
        "threads": len(os.listdir(f"/proc/{pid}/task")),
        "children": sorted(command_of(stat.pid).split(" --")[0] for stat in tree),
        "boxes": sorted(path.name for path in world.place.home.glob("boxes/*/*")),
        "temporary": sorted(path.name for path in temporary.iterdir()),
        "groups": [n for n in REAL.names(place) if world.instance in n] if place else [],
    }


async def steady(world: Everything) -> dict[str, Any]:
    """The same, once nothing is on its way any more: a look at the system has a thread, too."""
    seen = [state(world)]

    async def same() -> bool:
        await asyncio.sleep(0.05)
        seen.append(state(world))
        return len(seen) > 10 and all(one == seen[-1] for one in seen[-10:])

    await until(same, "the system is at rest")
    return seen[-1]


def _named(path: str) -> str:
    """What a descriptor leads to, without the number that each socket and pipe has."""
    try:
        return os.readlink(path).partition(":[")[0]
    except OSError:
        return "gone"


async def used(world: Everything) -> Session:
    """A session whose turn has taken everything and is over."""
    quick = {"match": "quick", "step": {"text": "Done."}}
    session = await world.session(*steps(world), on=(quick,))

    async def known() -> bool:
        found = await world.client.call("session.resume", session_id=session.id)
        return all(f"mcp__{name}__echo" in str(found["info"]["tools"]) for name in ("own", "lent"))

    await until(known, "the tool servers are known")
    await session.submit()
    for _ in steps(world)[:-1]:
        result = await world.result(session)
        assert '"is_error": true' not in result, result
    done = await world.next("message.complete", session)
    assert done["text"] == "All taken.", done
    return session


async def rows(world: Everything) -> list[str]:
    """Everything that is held, by anybody."""
    entries = (await world.client.call("census.get"))["entries"]
    return sorted(f"{row['owner']} {row['kind']} {row['label']}" for row in entries)


async def test_everything_that_a_turn_has_taken_is_free_after_the_close(place):
    async with everything(place, seen(place)) as world:
        first = await used(world)  # what a first use imports, and lends to all, is no leak
        keeper = await used(world)  # keeps what is lent
        await first.close()
        held, before = await rows(world), await steady(world)
        for _ in range(ROUNDS):
            session = await used(world)
            missing = KINDS.keys() - await session.kinds()
            assert not missing, missing
            now = state(world)
            assert all(len(now[kind]) > len(before[kind]) for kind in ("children", "boxes"))
            if real_place():
                assert len(now["groups"]) > len(before["groups"])
            await session.close()

            async def free() -> bool:
                return await rows(world) == held and state(world) == before

            try:
                await until(free, "all is free", 20.0)
            except AssertionError:
                assert (state(world), await rows(world)) == (before, held)
        await world.agrees()
        await keeper.close()
        assert sleepers() == []


async def test_the_census_tells_what_of_it_is_whose(place):
    """The lease of what is lent is the session's; the thing itself is everybody's."""
    async with everything(place, seen(place)) as world:
        session = await used(world)
        entries = (await world.client.call("census.get"))["entries"]
        lent = [row for row in entries if "lent" in row["label"]]
        assert any(session.id in row["owner"] for row in lent), json.dumps(lent)
        assert any(session.id not in row["owner"] and row.get("pid") for row in lent)
        await session.close()
