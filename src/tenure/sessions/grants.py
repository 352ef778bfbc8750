"""What somebody allowed "always": a 0600 JSON file in the home, changed by atomic replacement."""

from __future__ import annotations

import asyncio
import hashlib
import os
from pathlib import Path

import msgspec

from tenure.config import ApprovalRule
from tenure.errors import ConfigError, NotFound, StoreError
from tenure.lifecycle.threads import call_in_thread

_decoder = msgspec.json.Decoder(tuple[ApprovalRule, ...])


class Grants:
    """The standing grants of one home. Rules of the configuration that deny still win."""

    def __init__(self, path: Path, rules: tuple[ApprovalRule, ...] = ()) -> None:
        self._path = path
        self.rules = rules
        self._writing = False
        self._waiting: list[asyncio.Future[None]] = []

    @classmethod
    def load(cls, path: Path) -> Grants:
        """Read the file; a missing one is empty.

        Raises:
            ConfigError: it is unreadable. Nothing is granted from a file that cannot be read.
        """
        try:
            return cls(path, _decoder.decode(path.read_bytes()))
        except FileNotFoundError:
            return cls(path)
        except (OSError, msgspec.DecodeError) as exc:
            raise ConfigError(f"{path} cannot be read ({exc}); mend or remove it.") from None

    def add(self, rules: tuple[ApprovalRule, ...]) -> asyncio.Future[None]:
        """Let more grants count, and write them all; the future ends with the writing.

        Nobody need await it, and cancelling it stops nothing.

        Raises (through the future):
            StoreError: the file cannot be written; what was granted counts until the end.
        """
        self.rules += tuple(rule for rule in rules if rule not in self.rules)
        return self._store()

    def named(self) -> dict[str, ApprovalRule]:
        """The standing grants by name; the name of a grant is always the same."""
        return {_name(rule): rule for rule in self.rules}

    async def revoke(self, name: str) -> None:
        """Take a grant back: from now on it is asked again, everywhere.

        Cancellation: stops the waiting only.

        Raises:
            NotFound: there is none of that name.
            StoreError: the file cannot be written; the grant is back when the gateway has ended.
        """
        rule = self.named().get(name)
        if rule is None:
            raise NotFound(
                f"Nothing is allowed under {name[:40]!r}; `tenure approvals list` shows what is."
            )
        self.rules = tuple(one for one in self.rules if one != rule)
        await asyncio.shield(self._store())

    def _store(self) -> asyncio.Future[None]:
        """Write what counts now; the future ends with the writing."""
        written: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(written)
        if not self._writing:
            self._write()
        return written

    def _write(self) -> None:
        """Write all there is for everyone who waits now; one writing at a time."""
        self._writing = True
        waiting, self._waiting = self._waiting, []
        content = msgspec.json.encode(self.rules)
        writing = call_in_thread(_replace, self._path, content)
        writing.add_done_callback(lambda done: self._written(done, waiting))

    def _written(self, done: asyncio.Future[None], waiting: list[asyncio.Future[None]]) -> None:
        self._writing = False
        error = done.exception()
        for waiter in waiting:
            if waiter.done():
                continue
            if error is None:
                waiter.set_result(None)
            else:
                waiter.set_exception(self._told(error))
                waiter.exception()  # nobody need be waiting
        if self._waiting:
            self._write()

    def _told(self, error: BaseException) -> StoreError:
        return StoreError(
            f"{self._path} cannot be written ({error}), so what was granted or taken back is "
            "forgotten when the gateway ends."
        )


def _name(rule: ApprovalRule) -> str:
    return f"grant_{hashlib.sha256(msgspec.json.encode(rule)).hexdigest()[:10]}"


def _replace(path: Path, content: bytes) -> None:
    part = path.with_suffix(".part")
    fd = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(fd, "wb") as file:
        file.write(content)
    part.replace(path)
