"""Case 55: no write of one profile ever lands in another's database."""

from __future__ import annotations

import hashlib
import itertools
from dataclasses import dataclass, field

import pytest

from support.profiles import RealProfiles, closed, resumed, turn
from tenure.app import Gateway, Start
from tenure.browser.lending import system_browsers
from tenure.compose import _Lent, _open_profile
from tenure.config import ApprovalRule, Home, load
from tenure.errors import Conflict, NotFound
from tenure.logs import Redactor
from tenure.models.credentials import Credentials
from tenure.models.script import Script
from tenure.processes.spawn import Spawner
from tenure.sessions.budget import Memory
from tenure.sessions.profiles import IDLE_S
from tenure.store.base import InsertSession, SessionRow
from tenure.store.sqlite import open_sqlite, prepare
from tenure.testing.gateway import open_test_gateway
from tenure.testing.waiting import until

BOTH = ("p", "q")


def marks(home, name):
    """What stands in the files of a profile, byte for byte."""
    folder = home.profile(name).root
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.name.endswith("-shm")
    }


async def idle(gw, profiles, name):
    """Let a profile go, so that its file holds all there is.

    Others may go with it; time stands still until they are gone, since a release has a grace.
    """
    await until(lambda: name not in profiles.open or name in profiles.unused(), "given back")
    gw.ports.clock.advance(IDLE_S)
    await until(lambda: name not in profiles.open, "closed")
    await until(lambda: not any(e.state == "releasing" for e in gw.root.census()), "released")


async def everything(client, name):
    """All that writes: create, title, turn, close, resume, delete; the ids that stay."""
    kept = await client.ready_session(profile=name, title=f"born in {name}")
    await client.call("session.title", session_id=kept, title=f"lives in {name}")
    await turn(client, kept, f"said in {name}")
    await closed(client, kept)
    await resumed(client, kept, name)
    await turn(client, kept, f"more in {name}")
    await closed(client, kept)
    gone = await client.ready_session(profile=name)
    await turn(client, gone, f"gone from {name}")
    await client.call("session.delete", session_id=gone, profile=name)
    return kept


@pytest.mark.parametrize("first", [*BOTH, "default"])
async def test_the_other_file_stays_as_it_is_byte_for_byte(tmp_path, first):
    """Whoever is touched first."""
    async with open_test_gateway(tmp_path, Script([{"text": "ok"}], loop=True)) as gw:
        profiles, home = RealProfiles(gw), gw.ports.profiles.home
        client, _ = await gw.client()
        for name in BOTH:
            await client.call("profile.create", name=name)
        order = [first, *(name for name in ("p", "default", "q") if name != first)]
        kept = {name: await everything(client, name) for name in order}
        for name in BOTH:
            await idle(gw, profiles, name)
        for name, other in itertools.permutations(BOTH):
            before = marks(home, other)
            assert "tenure.db" in before
            await everything(client, name)
            await idle(gw, profiles, name)
            assert marks(home, other) == before
        for name in order:
            rows = (await client.call("session.list", profile=name))["sessions"]
            assert {row["title"] for row in rows} == {f"lives in {name}"}
            assert all(row["profile"] == name for row in rows)
            history = await client.call("session.history", session_id=kept[name], profile=name)
            told = [m["text"] for m in history["messages"] if m["role"] == "user"]
            assert told == [f"said in {name}", f"more in {name}"]


async def test_turns_at_the_same_time_write_each_into_its_own(tmp_path):
    async with open_test_gateway(tmp_path, Script([{"text": "ok"}], loop=True)) as gw:
        RealProfiles(gw)
        client, _ = await gw.client()
        for name in BOTH:
            await client.call("profile.create", name=name)
        names = ["default", *BOTH] * 3
        ids = [await client.ready_session(profile=name) for name in names]
        for n in range(3):
            for sid in ids:
                await client.call("prompt.submit", session_id=sid, text=f"{n} to {sid}")
        for _ in range(3 * len(ids)):
            await client.until("message.complete")
        for name in ("default", *BOTH):
            async with gw.ports.profiles.using(name) as store:
                rows = await store.sessions(limit=100)
                assert {row.id for row in rows} == {
                    sid for sid, own in zip(ids, names, strict=True) if own == name
                }
                for row in rows:
                    texts = [t.prompt for t in await store.turns(row.id)]
                    assert texts == [f"{n} to {row.id}" for n in range(3)]


async def test_a_copied_id_is_never_served_from_the_wrong_profile(tmp_path):
    """A copied database holds the same ids; the one that is asked for is the one that is opened."""
    sid = "20260101_000000_0000000a"
    async with open_test_gateway(tmp_path, Script([{"text": "ok"}], loop=True)) as gw:
        RealProfiles(gw)
        client, _ = await gw.client()
        for name in BOTH:
            await client.call("profile.create", name=name)
            home = gw.ports.profiles.home.profile(name)
            store = open_sqlite(home.database, prepare(home.database, home.backups))
            row = SessionRow(sid, f"of {name}", "/", "", "t", "closed", "", 1.0, 1.0)
            await store.write(InsertSession(row, ""))
            await store.aclose()
        opened = await client.call("session.resume", session_id=sid, profile="q")
        assert opened["info"]["title"] == "of q" and opened["info"]["profile_name"] == "q"
        with pytest.raises(Conflict, match="live in the profile 'q', not in 'p'"):
            await client.call("session.resume", session_id=sid, profile="p")
        with pytest.raises(NotFound):
            await client.call("session.history", session_id=sid, profile="default")
        assert (await client.call("session.resume", session_id=sid))["info"]["title"] == "of q"
        await client.call("session.title", session_id=sid, title="still of q")
        rows = (await client.call("session.list", profile="p"))["sessions"]
        assert [row["title"] for row in rows] == ["of p"]


@dataclass
class Composed:
    """As much of a gateway as the composition of a profile needs."""

    start: Start
    spawner: Spawner
    redactor: Redactor = field(default_factory=Redactor)
    instance: str = "test-0"
    memory: Memory = field(default_factory=Memory)

    follow = Gateway.follow

    def tell_config(self, profile, found):
        """Nobody listens."""

    async def hold(self, store, scope, config):
        """Nobody else is after this home."""


async def test_what_is_composed_for_a_profile_is_the_profiles_own(tmp_path, root, clock):
    home = Home(tmp_path / "home", tmp_path / "cache")
    own = home.profile("p")
    own.prepare()
    home.config.write_text('[model]\ndefault = "openai:a"\n[limits]\nqueue_max = 3\n')
    own.config.write_text('[model]\ndefault = "openai:b"\n')
    Credentials(own.credentials).save("openai", "sk-of-p")
    start = Start(home=home, loaded=load(home), environ={}, cwd=tmp_path, clock=clock)
    composed = Composed(start, Spawner(instance="test-0", environ={}, clock=clock))
    lent = _Lent(system_browsers(root.child("browsers"), composed.spawner, {}, "test-0"))
    ports = await _open_profile(composed, lent, "p", root.child("p"))
    await ports.store.write(InsertSession(SessionRow(
        "20260101_000000_0000000a", "", "/", "", "t", "open", "", 1.0, 1.0), "me"))  # fmt: skip
    await ports.grants.add((ApprovalRule("allow", tool="edit"),))
    assert ports.profile == "p" and ports.spill.is_relative_to(own.root)
    assert ports.models.choose().ref == "openai:b" and ports.config().limits.queue_max == 3
    assert ports.models._keys() == {"openai": "sk-of-p"}
    assert own.database.exists() and own.grants.exists()
    assert sorted(path.name for path in home.root.iterdir()) == ["config.toml", "profiles"]
    own.config.write_text('[model]\ndefault = "openai:c"\n')
    home.config.write_text("[limits]\nqueue_max = 4\n")
    ports.look()
    assert ports.models.choose().ref == "openai:c" and ports.config().limits.queue_max == 4
