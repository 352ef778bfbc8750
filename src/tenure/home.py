"""One gateway per home: the lock, the token, and the note that tells clients where it is.

The lock is a file lock of a file beside the database (never of the database itself); it ends with
its holder whatever happens to it, so there is nothing stale to reclaim. Beside it the home's lease
is a row (store/holding.py) with the holder's identity and an epoch that fences every write.
"""

from __future__ import annotations

import fcntl
import os
import secrets
from pathlib import Path

import msgspec

from tenure.config import DEFAULT_PROFILE, Home
from tenure.errors import BadValue, ConfigError, Conflict, NotFound
from tenure.ids import checked_name

TOKEN_BYTES = 32


class GatewayNote(msgspec.Struct, frozen=True):
    """``gateway.json``: who holds the home, and where it listens."""

    instance: str
    pid: int
    guard_pid: int
    start_time: int
    boot_id: str
    url: str
    version: str
    started_at: float


class Holder(msgspec.Struct, frozen=True):
    """Who holds a home, for ever: a pid alone is reused. Stands as text in the home's lease."""

    instance: str
    pid: int
    start_time: int
    boot_id: str
    guard_pid: int = 0
    guard_start: int = 0

    def text(self) -> str:
        """As it is stored."""
        return msgspec.json.encode(self).decode()

    @classmethod
    def read(cls, text: str) -> Holder | None:
        """From what is stored; None where that is nobody, or no identity of ours."""
        try:
            return msgspec.json.decode(text, type=cls) if text else None
        except msgspec.DecodeError:
            return None


class HomeLock:
    """Holds a home. Made by `acquire`; `release` gives it back."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    @classmethod
    def acquire(cls, home: Home) -> HomeLock:
        """Take the home.

        Raises:
            Conflict: another gateway holds it; says which.
            ConfigError: the home is unusable.
        """
        home.prepare()
        fd = os.open(home.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            raise Conflict(_held(home)) from None
        except OSError as exc:
            os.close(fd)
            raise ConfigError(f"{home.lock} cannot be locked ({exc.strerror}).") from None
        return cls(fd)

    def release(self) -> None:
        """Give it back. Idempotent."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def _held(home: Home) -> str:
    note = read_note(home)
    who = f" (pid {note.pid}, {note.url or 'not listening'})" if note else ""
    return (
        f"Another gateway{who} already serves the home {home.root}; attach to it, stop it, or set "
        "TENURE_HOME to another folder."
    )


def is_held(home: Home) -> bool:
    """Whether a living gateway holds the home."""
    try:
        fd = os.open(home.lock, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(fd)
    return False


def read_note(home: Home) -> GatewayNote | None:
    """The note of the last gateway, or None. Whether it lives is for `is_held` to say."""
    try:
        return msgspec.json.decode(home.gateway.read_bytes(), type=GatewayNote)
    except (OSError, msgspec.DecodeError):
        return None


def write_note(home: Home, note: GatewayNote) -> None:
    """Tell clients where we are (0600, replaced atomically)."""
    write_private(home.gateway, msgspec.json.encode(note))


def remove_note(home: Home, instance: str) -> None:
    """Remove our own note; one that a successor has written stays."""
    note = read_note(home)
    if note is not None and note.instance == instance:
        home.gateway.unlink(missing_ok=True)


def read_token(home: Home) -> str:
    """The token of the home, made on first use (0600).

    Raises:
        ConfigError: it cannot be read or is empty.
    """
    try:
        text = home.token.read_text(encoding="ascii").strip()
    except FileNotFoundError:
        text = secrets.token_urlsafe(TOKEN_BYTES)
        write_private(home.token, text.encode())
    except (OSError, UnicodeDecodeError) as exc:
        raise ConfigError(
            f"{home.token} cannot be read ({exc}); remove it for a new one."
        ) from None
    if not text:
        raise ConfigError(f"{home.token} is empty; remove it for a new one.")
    return text


def used_profile(home: Home) -> str:
    """The profile that commands use unless they say otherwise (``tenure profile use``).

    Raises:
        ConfigError: what stands there is no name.
    """
    try:
        name = home.used_profile.read_text(encoding="ascii").strip() or DEFAULT_PROFILE
        return checked_name(name, "profile")
    except FileNotFoundError:
        return DEFAULT_PROFILE
    except (OSError, UnicodeDecodeError, BadValue) as exc:
        raise ConfigError(
            f"{home.used_profile} names no profile ({exc}); `tenure profile use default` mends it."
        ) from None


def check_profile(home: Home, name: str) -> None:
    """Raises BadValue if that is no name, NotFound if no profile has it."""
    folder = home.profile(name).root
    if name != DEFAULT_PROFILE and (folder.is_symlink() or not folder.is_dir()):
        raise NotFound(f"There is no profile {name!r}; `tenure profile create {name}` makes it.")


def write_private(path: Path, content: bytes) -> None:
    """Replace a file atomically, readable by its owner only."""
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    fd = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "wb") as file:
        file.write(content)
    part.replace(path)
