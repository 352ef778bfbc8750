"""Case 99: a login is renewed by one at a time, over all processes, and survives what fails."""

from __future__ import annotations

import asyncio
import sys
import time

import msgspec
import pytest

from support.remote import Remote
from support.toolservers import open_rig
from tenure.errors import ToolError
from tenure.testing.clock import settle
from tenure.testing.waiting import until
from tenure.toolservers.logins import Login, Logins
from tenure.toolservers.remote import LOGINS


def log_in(rig, remote, *, expired):
    """Keep a login as `tenure mcp login` would."""
    remote.asks = True
    got = remote.tokens()
    login = Login(
        access_token=got["access_token"],
        refresh_token=got["refresh_token"],
        expires_at=time.time() - 10 if expired else time.time() + 3600,
        client={"client_id": "c1", "redirect_uris": ["http://127.0.0.1/callback"]},
        metadata={
            "issuer": remote.origin,
            "authorization_endpoint": f"{remote.origin}/authorize",
            "token_endpoint": f"{remote.origin}/token",
        },
    )
    file = rig.folder / "home" / LOGINS
    Logins(file, rig.clock).write(remote.url, login)
    return file


async def sessions(rig, remote, count):
    """Sessions, each with a server of its own, whose tools are known."""
    rig.declare(far={"url": remote.url})
    await rig.listed("0")
    await rig.close("0")
    for number in range(count):
        rig.session(f"{number}")


OTHER = """
import asyncio, json, sys
from pathlib import Path
sys.path.insert(0, {tests!r})
from support.toolservers import open_rig
async def main():
    async with open_rig(Path({folder!r})) as rig:
        for number in range(10):
            rig.session(f"p{{number}}")
        calls = (rig.call("mcp__far__echo", session=f"p{{n}}", text="x") for n in range(10))
        results = await asyncio.gather(*calls, return_exceptions=True)
        print(sum(getattr(r, "text", "") == "x" for r in results))
asyncio.run(main())
"""


async def test_twenty_sessions_in_two_processes_renew_once(tmp_path):
    from pathlib import Path

    async with Remote() as remote, open_rig(tmp_path) as rig:
        await sessions(rig, remote, 10)
        log_in(rig, remote, expired=True)
        remote.slow_renewal = asyncio.Event()
        tests = str(Path(__file__).resolve().parents[1])
        other = await asyncio.create_subprocess_exec(
            sys.executable, "-c", OTHER.format(tests=tests, folder=str(tmp_path)),
            stdout=asyncio.subprocess.PIPE,
        )  # fmt: skip
        calls = asyncio.gather(
            *(rig.call("mcp__far__echo", session=f"{n}", text="x") for n in range(10))
        )
        await asyncio.sleep(1.0)  # the other process comes, too
        remote.slow_renewal.set()
        assert [result.text for result in await calls] == ["x"] * 10
        said, _ = await other.communicate()
        assert said.decode().split() == ["10"]
        assert remote.renewals == 1 and not remote.reused


@pytest.mark.parametrize("status", [400, 500])
async def test_a_renewal_that_fails_changes_nothing(tmp_path, status):
    async with Remote() as remote, open_rig(tmp_path) as rig:
        await sessions(rig, remote, 1)
        file = log_in(rig, remote, expired=True)
        remote.good = set()
        before = file.read_bytes()
        remote.refuses = status
        with pytest.raises(ToolError, match="tenure mcp login far"):
            await rig.call("mcp__far__echo", session="0", text="x")
        assert file.read_bytes() == before and file.stat().st_mode & 0o777 == 0o600
        remote.refuses = 0
        await rig.close("0")
        rig.session("1")
        assert (await rig.call("mcp__far__echo", session="1", text="again")).text == "again"
        assert remote.renewals == 1


async def test_a_token_that_is_refused_early_is_renewed_once(tmp_path):
    async with Remote() as remote, open_rig(tmp_path) as rig:
        await sessions(rig, remote, 5)
        log_in(rig, remote, expired=False)
        remote.good = set()  # revoked over there
        remote.slow_renewal = asyncio.Event()
        calls = asyncio.gather(
            *(rig.call("mcp__far__echo", session=f"{n}", text="x") for n in range(5))
        )
        await until(lambda: remote.turned_away == 5)  # all of them have sent it
        remote.slow_renewal.set()
        results = await calls
        assert [result.text for result in results] == ["x"] * 5
        assert remote.renewals == 1 and not remote.reused


async def test_what_somebody_else_has_written_stays(tmp_path):
    async with open_rig(tmp_path) as rig:
        logins = Logins(tmp_path / "logins.json", rig.clock)
        old, new = Login(access_token="old"), Login(access_token="new")
        logins.write("u", old)
        assert logins.write("u", new, over=old)
        assert not logins.write("u", Login(access_token="late"), over=old)
        assert logins.read("u") == new
        raw = (tmp_path / "logins.json").read_bytes()
        assert msgspec.json.decode(raw)["u"] == {"access_token": "new"}


async def test_one_waits_for_the_other(tmp_path):
    async with open_rig(tmp_path) as rig:
        logins = Logins(tmp_path / "logins.json", rig.clock)
        order = []

        async def one(name):
            async with logins.alone():
                order.append(name)
                await settle()
                order.append(name)

        await asyncio.gather(one("a"), one("b"))
        assert order in (["a", "a", "b", "b"], ["b", "b", "a", "a"])
