"""The configuration in force: one value, replaced whole when its files have changed.

Nothing watches the files. Whoever begins something (a turn, a session) calls `look`, which costs a
stat; so a gateway that nobody uses does not wake up, and what has begun keeps the value it took.
A file that is wrong leaves the value as it is, and is told once.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from tenure.config import Config, Loaded
from tenure.errors import ConfigError
from tenure.glance import Glance

log = logging.getLogger("tenure.config")

_Stamp = tuple[tuple[int, int, int] | None, ...]


class Reload(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a look at files that had changed."""

    changed: tuple[str, ...] = ()
    """Keys that have another value from now on."""
    waiting: tuple[str, ...] = ()
    """Keys whose new value counts from the next start of the gateway."""
    error: str = ""
    """Why the files are not in force; what was, still is."""

    @property
    def text(self) -> str:
        """The same in a sentence or two."""
        if self.error:
            return f"{self.error} What was in force before stays so."
        told = []
        if self.changed:
            told.append(f"The configuration has changed ({', '.join(self.changed)}).")
        if self.waiting:
            told.append(f"{', '.join(self.waiting)}: counts from the next start of the gateway.")
        return " ".join(told) or "The configuration is in force as its file says."


def unchanged(config: Config) -> Config:
    """Nothing is put on top of the file."""
    return config


class LiveConfig:
    """A configuration that follows its files.

    Args:
        loaded: what is in force at first.
        read: reads the files; raises ConfigError.
        files: which ones.
        on_top: puts on top what the command line said.
        told: called with what a look has found.

    Attributes:
        config: what is in force.
        error: why the files as they are now are not; empty if they are.
    """

    def __init__(
        self,
        loaded: Loaded,
        read: Callable[[], Loaded],
        files: tuple[Path, ...],
        *,
        on_top: Callable[[Config], Config] = unchanged,
        told: Callable[[Reload], object] = bool,
    ) -> None:
        self.config = loaded.config
        self.error = ""
        self._read = read
        self._on_top = on_top
        self._told = told
        self._stamps = Glance(lambda: tuple(map(_stamp, files)))
        self._seen: _Stamp | None = None  # the files may have changed since they were read

    def __call__(self) -> Config:
        """What is in force."""
        return self.config

    def look(self, *, anyway: bool = False) -> Reload | None:
        """Take over what the files say, if they have changed; at one instant, on the loop.

        Args:
            anyway: read them even if they look unchanged.

        Returns:
            What came of it; None where there was nothing new.
        """
        stamp = self._stamps()  # before reading: a later change is seen later
        if stamp == self._seen and not anyway:
            return None
        self._seen = stamp
        try:
            config = self._on_top(self._read().config)
        except ConfigError as exc:
            return self._refuse(exc.message)
        now = self.config
        waiting = tuple(_differences(_gateway_only(now), _gateway_only(config)))
        kept = msgspec.structs.replace(config, server=now.server, log_level=now.log_level)
        changed = tuple(_differences(msgspec.to_builtins(now), msgspec.to_builtins(kept)))
        mended, self.error = bool(self.error), ""
        self.config = kept if changed else now
        if not (changed or waiting or mended):
            return None
        return self._tell(Reload(changed=changed, waiting=waiting))

    def _refuse(self, error: str) -> Reload | None:
        if error == self.error:
            return None  # it was told
        self.error = error
        return self._tell(Reload(error=error))

    def _tell(self, found: Reload) -> Reload:
        log.log(logging.ERROR if found.error else logging.INFO, "%s", found.text)
        self._told(found)
        return found


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def _gateway_only(config: Config) -> dict[str, Any]:
    """What a gateway takes from the configuration once, at its start."""
    return {"server": msgspec.to_builtins(config.server), "log_level": config.log_level}


def _differences(old: Any, new: Any, at: str = "") -> Iterator[str]:
    """The dotted keys at which two configurations differ. Pure."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted({*old, *new}):
            yield from _differences(old.get(key), new.get(key), f"{at}.{key}" if at else str(key))
    elif old != new:
        yield at
