"""The sweep on the real server: killed wherever the world may know more than it does.

One program of a client runs again and again; each time the gateway (or gateway and guard together)
is killed by SIGKILL at another commit, child, answer or event. Then a new gateway boots from what
is left: everything that was acknowledged is stored, every accepted prompt gets exactly one end, no
row stays open, no process of the dead one runs.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

from proof.chaos.ground import Connection, Ground
from proof.chaos.oracles import ended, stored
from proof.lifecycles import START, at_rest
from proof.real.faults import KINDS, Fault
from proof.real.gateway import Gateway, left_of, serving, write_script
from proof.real.wire import Lost

STEPS: list[Any] = [{"call": START}, [{"text": "It "}, {"text": "runs."}]]
GONE_S = 10.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Of this command."""
    parser.add_argument("--every", type=int, default=1, help="only each so-manieth point (1)")
    parser.add_argument("--only", default="", help="one fault: KIND:N:WHOM")


def main(args: argparse.Namespace) -> int:
    """Run it; 0 if the oracles hold after every kill."""
    begun = time.monotonic()
    if args.only:
        kind, n, whom = args.only.split(":")
        faults = [Fault(kind, int(n), whom)]
    else:
        counts = _count()
        print("points of the program: " + ", ".join(f"{counts[k]} {k}" for k in KINDS))
        faults = [
            Fault(kind, n, ("gateway", "both")[n // args.every % 2])
            for kind in KINDS
            for n in range(1, counts[kind] + 1, args.every)
        ]
    failed = 0
    for fault in faults:
        wrong = _one(fault)
        failed += bool(wrong)
        for one in wrong[:10]:
            print(f"WRONG: {fault}: {one}")
        if wrong:
            print(f'      python -m proof sweep --real --only "{fault}"', flush=True)
    took = time.monotonic() - begun
    print(f"{len(faults)} kills of the real server, {failed} with something wrong, {took:.0f} s")
    return bool(failed)


def _count() -> Counter[str]:
    with tempfile.TemporaryDirectory(prefix="proof-") as name:
        folder = Path(name)
        with serving(folder, write_script(folder, STEPS), env={"PROOF_FAULT": "count"}) as gateway:
            asyncio.run(_program(gateway, _ground(gateway), Told()))
            return Counter(gateway.ask("passed"))


def _ground(gateway: Gateway) -> Ground:
    async def connect() -> Connection:
        return await gateway.wire()

    return Ground(connect, 0)


class Told:
    """What the client was told before the end."""

    def __init__(self) -> None:
        self.created: set[str] = set()
        self.closed: set[str] = set()
        self.deleted: set[str] = set()
        self.deleting: set[str] = set()


async def _program(gateway: Gateway, ground: Ground, told: Told) -> None:
    """What the client does; it ends where the gateway does."""
    wire = await ground.connect()
    for n in range(2):
        session = await wire.call("session.create", auto_approve=True)
        one = session["session_id"]
        told.created.add(one)
        await ground.submit(wire, one, "first", key=f"key {n}")
        await ground.submit(wire, one, "second")
        await wire.until("message.complete", one, 2)
        branched = await wire.call("session.branch", session_id=one)
        told.created.add(branched["session_id"])
        await ground.submit(wire, branched["session_id"], "third")
        await wire.call("session.title", session_id=one, title=f"title {n}")
        await wire.call("session.undo", session_id=one)
        ground.taken_back[one] |= ground.accepted[one]
        await wire.call("session.close", session_id=one)
        told.closed.add(one)
        told.deleting.add(branched["session_id"])
        ground.taken_back[branched["session_id"]] |= ground.accepted[branched["session_id"]]
        await wire.call("session.delete", session_id=branched["session_id"])
        told.deleted.add(branched["session_id"])
    await ground.aclose()


def _one(fault: Fault) -> list[str]:
    with tempfile.TemporaryDirectory(prefix="proof-") as name:
        folder = Path(name)
        model = write_script(folder, STEPS)
        told = Told()
        with serving(folder, model, env={"PROOF_FAULT": str(fault)}) as first:
            ground = _ground(first)
            with suppress(Lost, OSError, TimeoutError, KeyError):
                asyncio.run(_cut(first, ground, told))
            first.gone(GONE_S)
        wrong = [*ground.wrong]
        if fault.whom == "gateway":  # the guard has seen to it before the next start
            wrong += [f"outlived the gateway: {one}" for one in left_of(first)]
        with serving(folder, model) as second:
            try:
                wrong += asyncio.run(_after(second, ground, told))
            except (Lost, OSError, TimeoutError) as exc:
                wrong.append(f"the next gateway does not answer: {exc!r}")
            wrong += ended(second, second.stop())
        return wrong


async def _cut(gateway: Gateway, ground: Ground, told: Told) -> None:
    """The program, for as long as there is a gateway."""
    async with asyncio.timeout(60):
        await _program(gateway, ground, told)


async def _after(gateway: Gateway, ground: Ground, told: Told) -> list[str]:
    """Ask the next gateway for everything that the last one has promised."""
    wire = await gateway.wire()
    wrong = []
    stored_ids = {row[0]: row[1] for row in gateway.query("SELECT id, status FROM sessions")}
    lost = told.created - told.deleting - stored_ids.keys()
    wrong += [f"{one} was created and is gone" for one in lost]
    wrong += [f"{one} was deleted and is there" for one in told.deleted & stored_ids.keys()]
    for one in told.created & stored_ids.keys():
        answer = await ground.ask(wire, "session.resume", session_id=one, auto_approve=True)
        if answer is None:
            wrong.append(f"{one} cannot be resumed")
    while any(row.get("running") for row in (await _live(wire))):
        await asyncio.sleep(0.05)
    for row in await _live(wire):
        await ground.ask(wire, "session.close", session_id=row["id"])
    held = await at_rest(gateway, wire)
    if held.children or held.rows:
        wrong.append(f"not at rest: {json.dumps(held._asdict())}")
    verdict = await wire.call("census.verify")
    wrong += [f"census and system differ: {one}" for one in verdict["differences"]]
    await wire.close()
    return [*wrong, *ground.wrong, *stored(ground, gateway)]


async def _live(wire: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = (await wire.call("session.active_list"))["sessions"]
    return rows
