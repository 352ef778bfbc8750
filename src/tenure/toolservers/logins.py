"""Logins at remote tool servers: one 0600 file for a profile, changed by one process at a time.

A token that is renewed is often good for one use, and its second use ends the whole login. So
whoever renews holds the lock of the file, looks first whether another has done it meanwhile, and
writes only over what it has read; a renewal that fails leaves what stands there.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from tenure.clock import Clock
from tenure.errors import ConfigError, ToolError
from tenure.home import write_private

LOCK_S = 60.0
"""How long somebody else may renew."""
TRY_S = 0.05
EARLY_S = 30.0
"""A token is renewed so long before its end."""


class Login(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is kept of one. All of it is secret."""

    access_token: str = ""
    refresh_token: str = ""
    scope: str = ""
    expires_at: float = 0.0
    """Wall clock; 0: it does not say."""
    client: dict[str, Any] = {}
    """How we are registered there."""
    metadata: dict[str, Any] = {}
    """Where its tokens are renewed."""

    def usable(self, now: float) -> bool:
        """Whether the token may be sent."""
        return bool(self.access_token) and not 0 < self.expires_at <= now + EARLY_S


class Logins:
    """The file.

    Args:
        path: of it.
        clock: time.
    """

    def __init__(self, path: Path, clock: Clock) -> None:
        self._path = path
        self._clock = clock

    def read(self, url: str) -> Login:
        """What is kept for a server; empty if nothing is. Raises ConfigError."""
        return self._load().get(url, Login())

    def write(self, url: str, login: Login | None, *, over: Login | None = None) -> bool:
        """Keep a login, or forget it (None); hold the lock.

        Args:
            url: the server.
            login: the new one.
            over: what must stand there now; None: whatever does.

        Returns:
            False where something else stood there, which stays.

        Raises:
            ConfigError: the file cannot be read or written.
        """
        known = self._load()
        if over is not None and known.get(url, Login()) != over:
            return False
        if login is None:
            known.pop(url, None)
        else:
            known[url] = login
        try:
            write_private(self._path, msgspec.json.encode(known))
        except OSError as exc:
            raise ConfigError(f"{self._path} cannot be written: {exc.strerror or exc}.") from None
        return True

    def _load(self) -> dict[str, Login]:
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=dict[str, Login])
        except FileNotFoundError:
            return {}
        except OSError as exc:
            raise ConfigError(f"{self._path} cannot be read: {exc.strerror or exc}.") from None
        except msgspec.MsgspecError:
            raise ConfigError(
                f"{self._path} is damaged; remove it and run `tenure mcp login` again."
            ) from None

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[None]:
        """Hold the file's lock, in this process and among others. Cancellable while waiting.

        Raises:
            ToolError: somebody else has held it for too long.
        """
        path = self._path.with_name(f"{self._path.name}.lock")
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            ends_at = self._clock.monotonic() + LOCK_S
            while not _locked(fd):
                if self._clock.monotonic() >= ends_at:
                    raise ToolError("another process renews this login and does not end")
                await self._clock.sleep(TRY_S)
            yield
        finally:
            os.close(fd)


def _locked(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
