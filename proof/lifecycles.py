"""``python -m proof lifecycles``: sessions with a real process each, from creation to close.

Against a real server over real sockets. What is held afterwards must be exactly what was held
before (descriptors, threads, children, tasks, temporary files, open rows, census), and the memory
of the last half of the sessions must grow by less than 1 kB for each. Memory is read when no
session is open, after a collection and after the allocator has given back its free pages; the slope
is the median of the slopes between all pairs of samples, so that single jumps do not count.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from pathlib import Path

from proof.real.gateway import Gateway, Held, left_of, serving, write_script
from proof.real.trend import last_half, slope
from proof.real.wire import Wire

KB = 1000
GROWTH_MAX = 1 * KB
SAMPLES = 20
WARM = 40
"""Sessions before the baseline: what a first use imports and opens is no leak."""
REST_S = 20.0
"""How long the gateway may take to come to rest. It takes milliseconds but for what is timed, such
as threads of the database that end when they are idle."""
START = {"name": "background", "arguments": {"action": "start", "command": "exec sleep 6000"}}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Of this command."""
    parser.add_argument("--count", type=int, default=10_000, help="sessions (10000)")
    parser.add_argument("--at-once", type=int, default=64, help="sessions at one time (64)")
    parser.add_argument("--sandbox", default="local", choices=("local", "bubblewrap"))
    parser.add_argument("--blame", action="store_true", help="say what the memory grows by (slow)")


def main(args: argparse.Namespace) -> int:
    """Run it; 0 if nothing is left and nothing grows."""
    with tempfile.TemporaryDirectory(prefix="proof-") as name:
        folder = Path(name)
        model = write_script(folder, [{"call": START}, {"text": "It runs."}])
        env = {"TENURE_SANDBOX": args.sandbox}
        if args.blame:
            env["PYTHONTRACEMALLOC"] = "6"
        with serving(folder, model, env=env) as gateway:
            wrong = asyncio.run(_run(gateway, args))
            code = gateway.stop()
        wrong += [f"the gateway ended with {code}"] if code else []
        wrong += [f"left behind: {one}" for one in left_of(gateway)]
    for one in wrong:
        print(f"WRONG: {one}")
    print("not proved" if wrong else "proved: nothing is left, nothing grows")
    return bool(wrong)


async def _run(gateway: Gateway, args: argparse.Namespace) -> list[str]:
    wires = [await gateway.wire() for _ in range(4)]
    await _many(wires, WARM, args.at_once)
    before = await at_rest(gateway, wires[0])
    print(f"baseline after {WARM} sessions: {_told(before)}")
    points: list[tuple[float, float]] = [(0.0, float(gateway.rss_bytes()))]
    begun, most = time.monotonic(), 0
    for n in range(SAMPLES):
        done = args.count * n // SAMPLES
        more = args.count * (n + 1) // SAMPLES - done
        most = max(most, await _many(wires, more, args.at_once))
        await at_rest(gateway, wires[0], before)
        points.append((float(done + more), float(gateway.rss_bytes())))
        rate = points[-1][0] / (time.monotonic() - begun)
        print(
            f"{points[-1][0]:8.0f} sessions  {points[-1][1] / 1e6:8.2f} MB  {rate:6.1f}/s",
            flush=True,
        )
        if args.blame and n >= SAMPLES // 2 - 1:
            print("\n".join(f"      {line}" for line in gateway.ask("grown")))
    after = await at_rest(gateway, wires[0], before)
    verdict = await wires[0].call("census.verify")
    for wire in wires:
        await wire.close()
    grown = slope(last_half(points))
    print(f"{args.count} sessions, each with a process; {most} processes at the most at one time")
    print(f"held at the end:  {_told(after)}")
    print(f"memory of the last half: {grown:+.0f} bytes a session (bound {GROWTH_MAX})")
    wrong = [f"{name}: {by} more than before" for name, by in after.more_than(before).items()]
    wrong += [f"census and system differ: {one}" for one in verdict["differences"]]
    if grown >= GROWTH_MAX:
        wrong.append(f"memory grows by {grown:.0f} bytes a session")
    return wrong


async def at_rest(gateway: Gateway, wire: Wire, goal: Held | None = None) -> Held:
    """What is held, as soon as it is no more than `goal`, or does not change any more."""
    give_up, last = time.monotonic() + REST_S, None
    while True:
        entries = (await wire.call("census.get"))["entries"]
        now = gateway.held(len(entries))
        if goal is not None and not now.more_than(goal):
            return now
        if time.monotonic() > give_up or (goal is None and now == last):
            return now
        last = now
        await asyncio.sleep(1.0 if goal is None else 0.05)


async def _many(wires: list[Wire], count: int, at_once: int) -> int:
    """So many sessions, some at one time; how many processes there were at the most."""
    numbers, open_now, most = iter(range(count)), 0, 0

    async def some() -> None:
        nonlocal open_now, most
        for n in numbers:
            wire = wires[n % len(wires)]
            session = await wire.create(auto_approve=True)
            await wire.call("prompt.submit", session_id=session, text="go")
            end = (await wire.until("message.complete", session))[0]["payload"]
            if end.get("status") not in (None, "completed", "complete", "stop"):
                raise AssertionError(f"a turn ended otherwise: {end}")
            open_now += 1
            most = max(most, open_now)
            await wire.call("session.close", session_id=session)
            open_now -= 1
            wire.events.pop(session, None)

    async with asyncio.TaskGroup() as group:
        for _ in range(at_once):
            group.create_task(some())
    return most


def _told(held: Held) -> str:
    return ", ".join(f"{value} {name}" for name, value in held._asdict().items())
