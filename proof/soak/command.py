"""``python -m proof soak``: everything that a session can hold, for minutes, with faults.

Rounds of sessions of every kind run against a real server, while clients vanish, read nothing, send
nonsense, and children are killed. After each round every session is closed, and what the gateway
holds is counted. It fails

* if any count at rest (descriptors, threads, children, tasks, temporary files, open rows, census)
  is more than after the warm-up, in any round;
* if memory grows: the median of the slopes between all pairs of samples at rest of the last half is
  1 kB a session or more;
* if the gateway answers with an internal error, logs a traceback, or leaves anything behind.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import tempfile
import time
from collections import defaultdict
from pathlib import Path

from proof.chaos.ground import Connection, Ground
from proof.chaos.oracles import ended, stored
from proof.lifecycles import GROWTH_MAX, at_rest
from proof.real.gateway import Gateway, Held, serving, write_script
from proof.real.trend import last_half, slope
from proof.real.wire import Wire
from proof.soak import plot
from proof.soak.churn import Churn, declared, script

WARM_ROUNDS = 3
Series = dict[str, list[tuple[float, float]]]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Of this command."""
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--sessions", type=int, default=60, help="a round (60)")
    parser.add_argument("--at-once", type=int, default=20, help="at one time (20)")
    parser.add_argument("--no-browser", action="store_true", help="even if there is a Chromium")
    parser.add_argument("--png", type=Path, default=Path("soak.png"), help="the picture (soak.png)")
    parser.add_argument("--blame", action="store_true", help="say what the memory grows by (slow)")


def main(args: argparse.Namespace) -> int:
    """Run it; 0 if nothing grows and nothing is left."""
    browser = not args.no_browser and shutil.which("chromium") is not None
    with tempfile.TemporaryDirectory(prefix="proof-") as name:
        folder = Path(name)
        (folder / "home").mkdir(mode=0o700)
        servers = json.dumps({"mcpServers": {"fake": declared()}})
        (folder / "home/mcp.json").write_text(servers)
        model = write_script(folder, [{"text": "Done."}], on=script())
        env = {"PYTHONTRACEMALLOC": "6"} if args.blame else {}
        config = "[browser]\nidle_s = 1.0\n" if browser else ""
        with serving(folder, model, config, env) as gateway:
            wrong = asyncio.run(Soak(gateway, args, browser=browser).run())
            wrong += ended(gateway, gateway.stop())
    for one in wrong[:40]:
        print(f"WRONG: {one}")
    print("not proved" if wrong else "proved: nothing grows, nothing is left")
    return bool(wrong)


class Soak:
    """One run.

    Args:
        gateway: the real server.
        args: of the command.
        browser: whether pages are visited, too.
    """

    def __init__(self, gateway: Gateway, args: argparse.Namespace, *, browser: bool) -> None:
        self._gateway = gateway
        self._args = args
        self._ground = Ground(self._connect, args.seed)
        self._churn = Churn(gateway, self._ground, browser=browser)
        self._begun = time.monotonic()
        self._loaded: Series = defaultdict(list)
        self._rested: Series = defaultdict(list)
        self._memory: list[tuple[float, float]] = []
        self._sessions = 0

    async def _connect(self) -> Connection:
        return await self._gateway.wire()

    async def run(self) -> list[str]:
        """What is wrong."""
        wire = await self._gateway.wire()
        for _ in range(WARM_ROUNDS):
            await self._round(wire)
        before = await at_rest(self._gateway, wire)
        print(f"after {WARM_ROUNDS} rounds of {self._args.sessions} sessions: {_told(before)}")
        wrong: list[str] = []
        sampling = asyncio.create_task(self._sample())
        end, n = time.monotonic() + self._args.minutes * 60, 0
        while time.monotonic() < end or len(self._memory) < 6:
            n += 1
            await self._round(wire)
            after = await at_rest(self._gateway, wire, before)
            self._keep(after)
            for name, by in after.more_than(before).items():
                wrong.append(f"round {n}: {by} {name} more than after the warm-up")
                if name == "census":
                    wrong += [str(row) for row in (await wire.call("census.get"))["entries"]]
            if self._args.blame:
                print("\n".join(f"      {line}" for line in self._gateway.ask("grown")))
        sampling.cancel()
        verdict = await wire.call("census.verify")
        wrong += [f"census and system differ: {one}" for one in verdict["differences"]]
        await wire.close()
        return [*self._ground.wrong, *wrong, *self._grown(), *stored(self._ground, self._gateway)]

    async def _round(self, wire: Wire) -> None:
        await self._churn.round(self._args.sessions, self._args.at_once)
        self._sessions += self._args.sessions
        await self._ground.aclose()
        while live := (await wire.call("session.active_list"))["sessions"]:
            for row in live:
                await self._ground.ask(wire, "session.close", session_id=row["id"])
        wire.events.clear()

    def _keep(self, held: Held) -> None:
        rss = self._gateway.rss_bytes()
        self._memory.append((float(self._sessions), float(rss)))
        now = time.monotonic() - self._begun
        for name, value in {"RSS": rss, **held._asdict()}.items():
            self._rested[name].append((now, float(value)))
        print(
            f"{now:6.0f} s  {self._sessions:6} sessions  {rss / 1e6:7.2f} MB  {_told(held)}",
            flush=True,
        )

    async def _sample(self) -> None:
        """Twice a second, what can be seen from outside under load."""
        while True:
            await asyncio.sleep(0.5)
            now, base = time.monotonic() - self._begun, Path(f"/proc/{self._gateway.pid}")
            for name, value in {
                "RSS": self._gateway.rss_bytes(trim=False),
                "fds": len([*(base / "fd").iterdir()]),
                "threads": len([*(base / "task").iterdir()]),
                "children": len(self._gateway.children()),
            }.items():
                self._loaded[name].append((now, float(value)))

    def _grown(self) -> list[str]:
        grown = slope(last_half(self._memory))
        print("\nunder load:")
        print(plot.text(self._loaded))
        print("at rest, after each round:")
        print(plot.text(self._rested))
        done = ", ".join(f"{name} {n}" for name, n in sorted(self._churn.done.items()))
        print(f"done: {done}; refused: {dict(self._ground.refused)}")
        print(f"memory of the last half: {grown:+.0f} bytes a session (bound {GROWTH_MAX})")
        plot.png(self._args.png, self._loaded, self._rested)
        print(f"picture: {self._args.png}")
        return [f"memory grows by {grown:.0f} bytes a session"] if grown >= GROWTH_MAX else []


def _told(held: Held) -> str:
    return ", ".join(f"{value} {name}" for name, value in held._asdict().items())
