"""What handlers are given: the gateway's parts, the connection, nothing ambient."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec

from tenure.clock import Clock
from tenure.config import Config
from tenure.lifecycle.lease import Lease
from tenure.lifecycle.scope import Scope
from tenure.processes.watchman import Watchman
from tenure.protocol.messages import EventParams
from tenure.sessions.admission import WorkingDirectories
from tenure.sessions.profiles import Profiles
from tenure.sessions.questions import OWNER
from tenure.sessions.registry import Sessions
from tenure.sessions.resources import ModelPicker
from tenure.store.base import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayPorts:
    """The gateway as handlers see it."""

    root: Scope
    sessions: Sessions
    profiles: Profiles
    store: Store
    """Of the default profile; which one a session has stands in its ports."""
    models: ModelPicker
    clock: Clock
    config: Callable[[], Config]
    folders: WorkingDirectories
    instance: str
    started_at: float
    watchman: Watchman
    """Looks after what runs."""
    facts: Callable[[], dict[str, Any]]
    """Pids, URL and the like, for gateway.info."""


class Peer(Protocol):
    """The connection as handlers see it.

    Attributes:
        watching: tells the peer changes of the census, if it wants that; owned by `scope`.
    """

    watching: Lease[asyncio.Task[None]] | None

    @property
    def scope(self) -> Scope:
        """What the connection holds."""

    @property
    def near(self) -> bool:
        """Whether it is on the gateway's own machine."""

    @property
    def pastes(self) -> dict[str, str]:
        """Long pastes by placeholder; they end with the connection."""

    @property
    def told_lazy(self) -> deque[str]:
        """The last sessions that an answer to this peer described before their agent was built."""

    def publish(self, event: EventParams) -> None:
        """Queue an event for this peer."""

    async def has_room(self) -> None:
        """Wait while much waits for this peer: for what sends many events at once."""

    def overflow(self) -> None:
        """Tell this peer that it is too slow, and drop it."""


class Call(msgspec.Struct, frozen=True, eq=False):
    """One request's surroundings.

    Attributes:
        gateway: its parts.
        peer: who asks.
        later: called in order once the answer is queued, or the request has failed.
        principal: on whose behalf: whoever holds the token is the owner.
    """

    gateway: GatewayPorts
    peer: Peer
    later: list[Callable[[], object]] = []
    principal: str = OWNER
