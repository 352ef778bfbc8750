"""Connecting to a host: its name is resolved once, every address judged, and one of them dialled.

Between the judgement and the connection there is no second look at the name, so a name that
changes its mind (DNS rebinding) changes nothing.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from tenure.clock import Clock
from tenure.errors import ToolError
from tenure.lifecycle.deadline import deadline
from tenure.lifecycle.threads import call_in_thread
from tenure.net.addresses import AddressRules, is_address

S = TypeVar("S")
Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""The seam to name servers: the addresses of a host. Raises OSError."""

RESOLVE_S = 10.0
CONNECT_S = 10.0
"""For one address."""
ADDRESSES_MAX = 8
"""Of one name that are tried."""
LOOKUPS_MAX = 16
"""Lookups at one time; each holds a thread as long as the system's resolver takes."""


class Lookups:
    """The system's resolver. Loop thread only; owns nothing that has to be freed.

    A lookup is a thread that nobody can stop. Cancelling leaves it to end by itself, which the
    resolver's own timeout sees to, and its answer is dropped; until then it counts.
    """

    def __init__(self) -> None:
        self._running = 0

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        """See `Resolve`."""
        if self._running >= LOOKUPS_MAX:
            raise OSError("too many lookups wait for the name server")
        self._running += 1
        future = call_in_thread(_look_up, host, port)
        future.add_done_callback(self._over)
        return await asyncio.shield(future)

    def _over(self, future: asyncio.Future[Sequence[str]]) -> None:
        self._running -= 1
        if not future.cancelled():
            future.exception()  # taken, whoever else has gone


def _look_up(host: str, port: int) -> Sequence[str]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return tuple(dict.fromkeys(str(entry[4][0]) for entry in found))


class Dialer:
    """Connects within rules. Holds no connection itself.

    Args:
        rules: what may be reached.
        clock: time.
        resolve: looks names up.
    """

    def __init__(self, rules: AddressRules, clock: Clock, resolve: Resolve | None = None) -> None:
        self.rules = rules
        self.clock = clock
        self._resolve = resolve or Lookups()

    async def addresses(self, host: str, port: int) -> tuple[str, ...]:
        """The addresses of `host`, all of them judged.

        Raises:
            AddressRefused: one of them may not be reached.
            ToolError: there are none.
        """
        found: Sequence[str] = (host,)
        if not is_address(host):
            try:
                async with deadline(self.clock, RESOLVE_S):
                    found = await self._resolve(host, port)
            except TimeoutError:
                raise ToolError(f"The name server did not answer about {host}.") from None
            except (OSError, UnicodeError):
                raise ToolError(f"There is no host {host} (or no network).") from None
        if not found:
            raise ToolError(f"There is no host {host}.")
        for address in found:
            self.rules.check(host, address, port)
        return tuple(found[:ADDRESSES_MAX])

    def check_literal(self, host: str, port: int) -> None:
        """Judge `host` if it is an address, however spelled; for where somebody else resolves.

        Raises:
            AddressRefused: it may not be reached.
        """
        address = host
        if not is_address(host):
            try:
                address = socket.inet_ntoa(socket.inet_aton(host))
            except OSError:
                return
        self.rules.check(host, address, port)

    async def dial(self, host: str, port: int, connect: Callable[[str], Awaitable[S]]) -> S:
        """Connect to `host` through `connect`, which is given one judged address after another.

        Ownership: what `connect` returns is the caller's. Cancellable.

        Raises:
            AddressRefused: see `addresses`.
            ToolError: none of them answers.
        """
        why = ""
        for address in await self.addresses(host, port):
            try:
                async with deadline(self.clock, CONNECT_S):
                    return await connect(address)
            except TimeoutError:
                why = f"no connection within {CONNECT_S:.0f} s"
            except OSError as exc:
                why = _why(exc)
        raise ToolError(f"{host} port {port} cannot be reached: {why}.")


def _why(exc: OSError) -> str:
    if isinstance(exc, ConnectionRefusedError):
        return "connection refused"
    return exc.strerror or "the connection broke"
