"""The hook at the end of a session: a command of the user's, once for each end.

That it has to run is stored in the write that ends the session, so it is neither lost nor doubled,
whatever ends it. That it starts is stored before it does: one that was cut off by a crash is told
in the log and never repeated, since nobody knows what it has done. Unloading a session is no end.

    stored       in the last write of the session (or at the start, for what a crash left open)
    started      in a write of its own; then the command runs, bounded in time
    forgotten    when it is over
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from tenure.errors import LeaseLost, ProcessError, TenureError
from tenure.lifecycle.deadline import deadline
from tenure.lifecycle.scope import Scope
from tenure.processes.pipes import ByteReader
from tenure.sessions.projection import message_of
from tenure.store.base import EndRow, FinishEnd, ItemRow, SessionRow, StartEnd

if TYPE_CHECKING:
    from tenure.processes.spawn import Process
    from tenure.sessions.profiles import Profiles
    from tenure.sessions.resources import SessionPorts

log = logging.getLogger("tenure.sessions")

AT_ONCE = 4
"""Commands that run at the same time, all profiles together."""


class EndHooks:
    """Runs what ends of sessions have asked for. One per gateway; without the setting it sleeps.

    Args:
        scope: owns the commands; what still runs when it ends is ended.
        profiles: where ends are stored. It must outlast `scope`.
    """

    def __init__(self, scope: Scope, profiles: Profiles) -> None:
        self._scope = scope
        self._profiles = profiles
        self._wanted: set[str] = set()
        self._running: set[tuple[str, str, int]] = set()
        self._seen: set[str] = set()
        self._changed = asyncio.Event()
        self._works = False
        self._slots = asyncio.Semaphore(AT_ONCE)

    def wake(self, profile: str) -> None:
        """An end may have been stored there. Never waits."""
        self._wanted.add(profile)
        if not self._works and self._scope.admits:
            self._works = True
            self._scope.spawn(self._work(), name="end hooks")

    @property
    def busy(self) -> bool:
        """Whether a command runs, or may have to."""
        return self._works or bool(self._running)

    async def wait_idle(self) -> None:
        """Wait until nothing has to run. Cancelling it stops the waiting."""
        while self.busy:
            await self._changed.wait()

    async def wait_started(self, session_id: str, profile: str) -> None:
        """Wait until every hook for a session has read what it needs, bounded by its own time."""
        async with self._profiles.using_ports(profile) as ports:
            hooks = ports.config().hooks
            if not hooks.session_end:
                return
            self.wake(profile)
            with suppress(TimeoutError):
                async with deadline(ports.clock, hooks.timeout_s):
                    changed = self._changed
                    while _waits(await ports.store.ends(), session_id):
                        await changed.wait()
                        changed = self._changed  # what comes after is looked at, too

    async def _work(self) -> None:
        try:
            while self._wanted:
                profile = self._wanted.pop()
                try:
                    await self._look(profile)
                except TenureError as exc:
                    log.warning("The end hooks of profile %s cannot be looked at: %s", profile, exc)
        finally:
            self._works = False
            self._tell()

    async def _look(self, profile: str) -> None:
        """Start what waits in one profile."""
        async with self._profiles.using_ports(profile) as ports:
            if not ports.config().hooks.session_end:
                return
            ends = await ports.store.ends()
            if profile not in self._seen:  # nothing of ours has started there yet
                self._seen.add(profile)
                await _forget_cut_off(ports, [end for end in ends if end.started_at])
            for end in ends:
                key = (profile, end.session_id, end.epoch)
                if end.started_at or key in self._running:
                    continue
                await self._slots.acquire()
                self._running.add(key)
                task = self._scope.spawn(self._run(key, end), name=f"end hook {end.session_id}")
                task.value.add_done_callback(partial(self._over, key))

    def _over(self, key: tuple[str, str, int], _: object) -> None:
        self._running.discard(key)
        self._slots.release()
        self._tell()

    def _tell(self) -> None:
        """Wake all who wait. Each change has an event of its own: none takes it from another."""
        self._changed.set()
        self._changed = asyncio.Event()

    async def _run(self, key: tuple[str, str, int], end: EndRow) -> None:
        """One hook, from its start to its end, whatever comes in between."""
        try:
            async with self._profiles.using_ports(key[0]) as ports:
                row = await ports.store.session(end.session_id)
                rows = await ports.store.history(end.session_id)
                if row is None:
                    return
                told = msgspec.json.encode(_told(row, end, rows, ports.profile))
                await ports.store.write(StartEnd(end.session_id, end.epoch, ports.clock.wall()))
                self._tell()
                how = await self._command(ports, end, told)
                log.info("The end hook of session %s %s", end.session_id, how)
                await ports.store.write(FinishEnd(end.session_id, end.epoch))
        except LeaseLost:
            return  # it was started before, or the home is another gateway's
        except TenureError as exc:
            log.warning("The end hook of session %s: %s", end.session_id, exc)

    async def _command(self, ports: SessionPorts, end: EndRow, told: bytes) -> str:
        """Run the command; how that went, without anything that it has said."""
        hooks = ports.config().hooks
        async with self._scope.child(f"end hook {end.session_id}") as scope:
            try:
                process = await ports.spawner.spawn(
                    scope, hooks.session_end, cwd=self._profiles.home.profile(ports.profile).root,
                    stdin="pipe", stderr="merge", kind="hook", owner=end.session_id,
                )  # fmt: skip
            except ProcessError as exc:
                return f"did not run: {exc}"
            assert process.stdout is not None
            said = _Count()
            scope.spawn(said.drain(process.stdout), name="output of the hook")
            try:
                async with deadline(ports.clock, hooks.timeout_s):
                    code = await _feed(process, told)
            except TimeoutError:
                return f"was ended after {hooks.timeout_s:g} s; it has written {said.bytes} bytes"
            return f"ended with {code}; it has written {said.bytes} bytes"


async def _forget_cut_off(ports: SessionPorts, ends: list[EndRow]) -> None:
    for end in ends:
        log.warning(
            "The end hook of session %s was cut off; what it has done is unknown, so it is not "
            "repeated", end.session_id,
        )  # fmt: skip
        await ports.store.write(FinishEnd(end.session_id, end.epoch))


class _Count:
    """Takes output and keeps its length."""

    def __init__(self) -> None:
        self.bytes = 0

    async def drain(self, reader: ByteReader) -> None:
        while piece := await reader.read():
            self.bytes += len(piece)


async def _feed(process: Process, told: bytes) -> int:
    with suppress(ProcessError):  # it need not read all of it
        await process.write(told)
    process.close_stdin()
    return await process.wait()


def _waits(ends: list[EndRow], session_id: str) -> bool:
    return any(end.session_id == session_id and not end.started_at for end in ends)


def _told(row: SessionRow, end: EndRow, rows: list[ItemRow], profile: str) -> dict[str, Any]:
    """What the command reads. As many messages as entries are stored."""
    return {
        "session_id": row.id,
        "profile": profile,
        "reason": end.reason,
        "title": row.title,
        "cwd": row.cwd,
        "started_at": row.created_at,
        "ended_at": end.at,
        "messages": [{**message_of(item), "kind": item.kind} for item in rows],
    }
