"""Whoever looks after what runs: limits of each owner that no kernel keeps, and strays.

A look costs milliseconds in a thread. While something changes it comes twice a second, less often
where thousands of processes make it slow; what stands still is looked at ever more rarely, at last
twice a minute; where nothing of ours runs, never. A process that nobody holds is seen twice before
it is ended, by its identity: one that is just being started, or just being ended, is no stray.
"""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Callable
from typing import NamedTuple

from tenure.clock import Clock
from tenure.lifecycle.entry import CensusEntry
from tenure.lifecycle.scope import Scope
from tenure.lifecycle.threads import call_in_thread
from tenure.processes.accounts import Account, Held, Look, look, written_bytes
from tenure.processes.containment import end_all
from tenure.processes.procfs import Stat, all_stats, is_namespace_init, read_stat, send_signal
from tenure.processes.quotas import MIB, Ceiling, Quota
from tenure.processes.spawn import Process, Spawner, Tree

log = logging.getLogger("tenure.processes")

PAUSE_MIN_S = 0.5
PAUSE_MAX_S = 30.0
PAUSE_SHARE = 10
"""The next look comes after that many times as long as the last has taken, at the earliest."""
TERM_S = 1.0
NOTICE_S, NOTICE_LOOKS = 2.0, 40
"""How long an owner may take to notice that its process has ended, and how often is looked."""
FREEZES_MAX = 50
"""Looks for what was forked while the others were being stopped."""


class Found(NamedTuple):
    """A difference between what is held and what runs."""

    kind: str
    """stray: it runs and nobody holds it. gone: it is held and does not run. leaked: it is held
    because it could not be released."""
    what: str
    owner: str
    pid: int
    healed: bool


class Watchman:
    """Looks after the children of one gateway.

    Args:
        scope: owns its task, and what it ends.
        spawner: whose children.
        clock: time.
        ceiling: the limits of each owner, as they are now.
    """

    def __init__(
        self,
        scope: Scope,
        spawner: Spawner,
        clock: Clock,
        ceiling: Callable[[], Ceiling],
    ) -> None:
        self._scope = scope
        self._spawner = spawner
        self._clock = clock
        self._ceiling = ceiling
        self._begun = asyncio.Event()
        self._suspects: set[tuple[int, int]] = set()
        self.found = 0
        """Differences so far."""
        spawner.begun = self._begun.set

    def begin(self) -> None:
        """Start looking; the scope ends it."""
        self._scope.spawn(self._run(), name="watchman")

    async def _run(self) -> None:
        before, pause_s = Look({}, {}, ()), PAUSE_MIN_S
        while True:
            if not self._spawner.trees and not self._suspects:
                self._begun.clear()
                await self._begun.wait()
                pause_s = PAUSE_MIN_S
            begun_s = self._clock.monotonic()
            try:
                now = await self.look()
                took_s = self._clock.monotonic() - begun_s
                await self._enforce(now)
                await self._end_strays(now.strays)
            except Exception:
                # No thread, no descriptor: just then whoever has taken them must be found.
                log.exception("What runs could not be looked after; it is tried again")
                await self._clock.sleep(pause_s)
                pause_s = min(PAUSE_MAX_S, pause_s * 2)
                continue
            moved = _moved(before, now) or self._begun.is_set()
            self._begun.clear()
            before, pause_s = now, PAUSE_MIN_S if moved else min(PAUSE_MAX_S, pause_s * 2)
            await self._clock.sleep(max(pause_s, took_s * PAUSE_SHARE))

    async def look(self) -> Look:
        """What runs now, by owner. Reads /proc in a thread."""
        held = [_held(tree) for tree in self._spawner.trees.values()]
        return await call_in_thread(look, held, self._spawner.mark)

    async def accounts(self) -> dict[str, Account]:
        """What the children of each owner use now; nothing is read where there are none."""
        return (await self.look()).accounts if self._spawner.trees else {}

    async def verify(self, census: Callable[[], list[CensusEntry]]) -> list[Found]:
        """Compare once what is held and what runs.

        What runs and nobody holds is seen twice, then ended. What is held and has no process is
        told when its owner does not notice within `NOTICE_S`.

        Args:
            census: what is held, asked for again and again.

        Cancellation: what was begun to be ended is ended.
        """
        strays = (await self.look()).strays
        again = {(s.pid, s.start_time) for s in (await self.look()).strays} if strays else set()
        certain = [stat for stat in strays if (stat.pid, stat.start_time) in again]
        found = await self._end(certain)
        found += await self._held_in_vain(census)
        self.found += len(found)
        return found

    async def _held_in_vain(self, census: Callable[[], list[CensusEntry]]) -> list[Found]:
        dead = {entry.key for entry in census() if _is_dead(entry)}
        for _ in range(NOTICE_LOOKS):
            if not dead:
                break
            await self._clock.sleep(NOTICE_S / NOTICE_LOOKS)
            dead.intersection_update(entry.key for entry in census() if _is_dead(entry))
        return [
            _difference("leaked" if entry.state == "leaked" else "gone", entry)
            for entry in census()
            if entry.state == "leaked" or entry.key in dead
        ]

    # --- limits -------------------------------------------------------------------------------

    async def _enforce(self, now: Look) -> None:
        ceiling = self._ceiling()
        for owner, account in now.accounts.items():
            quota = self._spawner.quotas.get(owner) if self._spawner.quotas else None
            told = _over(account, ceiling, quota.kernel if quota else frozenset())
            if told:
                await self._end_largest(owner, now, told, by_memory="MiB" in told)
            elif quota is not None:
                await self._look_closer(quota, now)

    async def _look_closer(self, quota: Quota, now: Look) -> None:
        """At what takes a thread: its group and its folders."""
        trees = {t.number for t in self._spawner.trees.values() if t.owner == quota.owner}
        pids = [pid for pid, number in now.owned.items() if number in trees]
        swarming, overfull = await call_in_thread(_closer, quota, pids, self._clock.monotonic())
        if swarming:
            await self._end_largest(quota.owner, now, swarming, by_memory=False)
        elif overfull:
            await self._end_writer(quota.owner, now, overfull)

    async def _end_largest(self, owner: str, now: Look, told: str, *, by_memory: bool) -> None:
        """End the tree that uses most; the others of the owner go on."""

        def use(tree: Tree) -> int:
            account = now.trees.get(tree.number, Account())
            return account.rss_bytes if by_memory else account.processes

        trees = [tree for tree in self._spawner.trees.values() if tree.owner == owner]
        if trees:
            await self._end_tree(max(trees, key=use), told)

    async def _end_writer(self, owner: str, now: Look, told: str) -> None:
        """End the tree that has written most; of those that have written nothing, the newest."""
        trees = {t.number: t for t in self._spawner.trees.values() if t.owner == owner}

        def written() -> dict[int, int]:
            pids: dict[int, list[int]] = {number: [] for number in trees}
            for pid, number in now.owned.items():
                pids.get(number, []).append(pid)
            return {number: written_bytes(some) for number, some in pids.items()}

        most = await call_in_thread(written)
        if trees:
            await self._end_tree(trees[max(trees, key=lambda n: (most[n], n))], told)

    async def _end_tree(self, tree: Tree, told: str) -> None:
        process = tree.process
        if process is None:
            return
        process.verdict = process.verdict or told
        log.warning(
            "Process %s %s of %s is ended: %s", process.pid, process.label, tree.owner, told
        )
        await call_in_thread(_end_now, process)

    # --- strays -------------------------------------------------------------------------------

    async def _end_strays(self, strays: tuple[Stat, ...]) -> None:
        seen = {(stat.pid, stat.start_time) for stat in strays}
        again = [stat for stat in strays if (stat.pid, stat.start_time) in self._suspects]
        self._suspects = seen.difference((stat.pid, stat.start_time) for stat in again)
        self.found += len(again)
        await self._end(again)

    async def _end(self, strays: list[Stat]) -> list[Found]:
        if not strays:
            return []
        known = {stat.pid: stat.start_time for stat in strays}

        def find() -> list[Stat]:
            now = [read_stat(pid) for pid in known]
            return [s for s in now if s and not s.gone and s.start_time == known[s.pid]]

        for stat in strays:
            log.warning("Process %s runs and nobody holds it: it is ended", stat.pid)
        left = await call_in_thread(end_all, find, [(signal.SIGTERM, TERM_S)])
        alive = {stat.pid for stat in left}
        return [Found("stray", "process", "", pid, pid not in alive) for pid in known]


def _closer(quota: Quota, pids: list[int], now_s: float) -> tuple[str, str]:
    """Take what has got out of the group back in; why the session is over its limits, if it is."""
    quota.readmit(pids)
    return quota.swarming(), quota.overfull(now_s)


def _end_now(process: Process) -> None:
    """Stop all of it, so that nothing is forked meanwhile, then end it. Blocks.

    In a group everything of the session stands still at one instant, until it has ended. A box ends
    whole with its first process, by one signal, faster than any swarm in it can fork.
    """
    group = process.quota.group if process.quota else None
    if group is None:
        _stop_and_end(process)
        return
    group.freeze(frozen=True)
    try:
        _stop_and_end(process)
    finally:
        group.freeze(frozen=False)


def _stop_and_end(process: Process) -> None:
    for stat in all_stats() if process.wraps else ():
        if stat.ppid == process.pid and is_namespace_init(stat.pid):
            send_signal(stat, signal.SIGKILL)

    stopped: set[int] = set()
    for _ in range(FREEZES_MAX):
        more = [stat for stat in process.members() if stat.pid not in stopped]
        if not more:
            break
        for stat in more:
            send_signal(stat, signal.SIGSTOP)
            stopped.add(stat.pid)
    end_all(process.members, [])


def _is_dead(entry: CensusEntry) -> bool:
    """Whether its process runs no more."""
    if not entry.pid:
        return False
    stat = read_stat(entry.pid)
    return stat is None or stat.gone


def _difference(kind: str, entry: CensusEntry) -> Found:
    what = f"{entry.kind} {entry.label}".strip()
    return Found(kind, what, entry.owner, entry.pid or 0, healed=False)


def _held(tree: Tree) -> Held:
    root = tree.process.root if tree.process else None
    return Held(tree.number, tree.owner, root)


def _over(account: Account, ceiling: Ceiling, kernel: frozenset[str] = frozenset()) -> str:
    """Why an owner is over its limits; empty if it is not.

    The number comes first: a swarm eats memory, too, and that would not say what is wrong. Memory
    that the kernel limits is not looked at: it counts what processes share once.
    """
    if ceiling.processes and account.processes > ceiling.processes:
        return (
            f"the session ran {account.processes} processes; the limit is {ceiling.processes} "
            "(limits.session_processes)"
        )
    used = account.rss_bytes // MIB
    if ceiling.memory_mib and used > ceiling.memory_mib and "memory" not in kernel:
        return (
            f"the session's processes used {used} MiB; the limit is {ceiling.memory_mib} MiB "
            "(limits.session_memory_mib)"
        )
    return ""


def _moved(before: Look, now: Look) -> bool:
    """Whether anything has changed that is worth another look soon."""
    if before.trees.keys() != now.trees.keys():
        return True
    for number, account in now.trees.items():
        old = before.trees[number]
        grown = abs(account.rss_bytes - old.rss_bytes) > max(8 * MIB, old.rss_bytes // 10)
        if account.processes != old.processes or grown or account.cpu_s > old.cpu_s + 0.05:
            return True
    return False
