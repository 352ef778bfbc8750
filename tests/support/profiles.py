"""Profiles with real databases in a test's gateway, opened as the composition root opens them."""

from __future__ import annotations

import os
from dataclasses import replace

from tenure.app import open_store
from tenure.lifecycle.scope import Scope
from tenure.sessions.resources import SessionPorts
from tenure.store.base import SettleLeftovers
from tenure.testing.gateway import TestClient, TestGateway


class RealProfiles:
    """Set as `TestGateway.open_profile`; counts what is open.

    Attributes:
        opened: how often each profile's database was opened.
        open: those that are open now.
    """

    def __init__(self, gateway: TestGateway) -> None:
        self.home = gateway.ports.profiles.home
        self.opened: dict[str, int] = {}
        self.open: list[str] = []
        gateway.open_profile = self
        self._shared = gateway.ports.profiles.open

    async def __call__(self, name: str, scope: Scope, base: SessionPorts) -> SessionPorts:
        self.opened[name] = self.opened.get(name, 0) + 1
        self.open.append(name)
        scope.own("count", name, self.open.remove)
        store = await open_store(scope, self.home.profile(name))
        await store.write(SettleLeftovers("crash", base.clock.wall()))
        return replace(base, store=store, profile=name)

    def unused(self) -> list[str]:
        """Those that everybody has given back; the time until they are closed is counted."""
        return [name for name, slot in self._shared._slots.items() if slot.idle is not None]


async def turn(client: TestClient, session: str, text: str = "hi") -> dict[str, object]:
    """One turn; the payload of its end."""
    await client.call("prompt.submit", session_id=session, text=text)
    return (await client.until("message.complete", session)).payload


async def closed(client: TestClient, session: str) -> None:
    """Close a session and wait for its end."""
    await client.call("session.close", session_id=session)
    await client.until("session.closed", session)


async def resumed(client: TestClient, session: str, profile: str) -> None:
    """Open a stored session and wait until its agent is there."""
    opened = await client.call("session.resume", session_id=session, profile=profile)
    if opened["info"]["lazy"]:
        await client.until("session.info", session)


def descriptors() -> list[str]:
    """What this process has open, by name."""
    found = []
    for fd in os.listdir("/proc/self/fd"):
        try:
            found.append(os.readlink(f"/proc/self/fd/{fd}"))
        except FileNotFoundError:
            continue
    return sorted(found)
