"""The files of a working directory on another machine, by SFTP. Imported on first use.

The real path of what is asked is looked up there and must lie below the working directory's own.
Between the look and the use somebody over there may change it; they are on their own machine.
"""

from __future__ import annotations

import contextlib
import posixpath
import secrets
import stat
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Literal

import asyncssh

from tenure.errors import ToolError
from tenure.sandbox.base import FILE_BYTES_MAX, Bounds, Entry


class Tree:
    """The files below one working directory, for one call.

    Args:
        sftp: the client; borrowed.
        root: the working directory there.
        bounds: what of it the call may touch.
    """

    def __init__(self, sftp: asyncssh.SFTPClient, root: str, bounds: Bounds) -> None:
        self._sftp = sftp
        self._root = root
        self._bounds = bounds

    async def find(self, path: str) -> str:
        """See `Files.find`."""
        async with _told(path):
            return (await self._below(path))[1]

    async def read(self, path: str) -> bytes:
        """See `Files.read`."""
        async with _told(path):
            real, _ = await self._below(path)
            attributes = await self._sftp.stat(real)
            if not stat.S_ISREG(attributes.permissions or 0):
                raise ToolError(f"{path[:200]} is no regular file.")
            if (attributes.size or 0) > FILE_BYTES_MAX:
                raise ToolError(f"{path[:200]} is over {FILE_BYTES_MAX} bytes; use a command.")
            async with self._sftp.open(real, "rb", encoding=None) as file:
                content: bytes = await file.read(FILE_BYTES_MAX)
                return content

    async def write(self, path: str, content: bytes) -> bool:
        """See `Files.write`."""
        sftp = self._sftp
        async with _told(path):
            await self._make_parents(path)
            real, _ = await self._below(path)
            mode = await _mode_of(sftp, real, path)
            fresh = posixpath.join(posixpath.dirname(real), f".{secrets.token_hex(6)}.tmp")
            try:
                async with sftp.open(fresh, "xb", encoding=None) as file:
                    await file.write(content)
                if mode is not None:
                    await sftp.chmod(fresh, mode)
                await sftp.posix_rename(fresh, real)
            except BaseException:
                with contextlib.suppress(OSError, asyncssh.Error):
                    await sftp.remove(fresh)
                raise
            return mode is None

    async def entries(self, path: str) -> list[Entry]:
        """See `Files.entries`."""
        async with _told(path):
            names = await self._sftp.readdir((await self._below(path))[0])
        return [_entry(name) for name in names if name.filename not in {".", ".."}]

    async def _below(self, path: str, rest: str = "") -> tuple[str, str]:
        """The real path of `path`, which need not exist itself, and the same below the real root.

        Args:
            path: what is asked for.
            rest: what will be made below it, and is judged with it.

        Raises:
            ToolError: it leads out, or rules want it asked or denied.
        """
        sftp, root = self._sftp, self._root
        top = str(await sftp.realpath(root))
        asked = posixpath.normpath(posixpath.join(root, path))
        if "\0" in path or ".." in path.split("/"):
            raise ToolError(f"{path[:200]!r} is not below the working directory {root}.")
        real = top
        if asked != posixpath.normpath(root):
            folder, name = posixpath.split(asked)
            real = posixpath.join(str(await sftp.realpath(folder)), name)
            if await sftp.islink(real):
                real = str(await sftp.realpath(real))
        if real != top and not real.startswith(f"{top.rstrip('/')}/"):
            raise ToolError(
                f"{path[:200]!r} leads out of the working directory {root}; stay below it."
            )
        found = posixpath.relpath(real, top)
        self._bounds.check(Path(root), path, posixpath.normpath(posixpath.join(found, rest)))
        return real, found

    async def _make_parents(self, path: str) -> None:
        *folders, name = path.split("/")
        made = ""
        for number, piece in enumerate(folders if not path.startswith("/") else ()):
            made = posixpath.join(made, piece)
            rest = "/".join([*folders[number + 1 :], name])
            real, _ = await self._below(made, rest)
            if not await self._sftp.exists(real):
                await self._sftp.mkdir(real)


@contextlib.asynccontextmanager
async def _told(path: str) -> AsyncIterator[None]:
    """Errors of the other side as sentences."""
    shown = path[:200]
    try:
        yield
    except asyncssh.SFTPNoSuchFile:
        raise ToolError(f"There is no {shown!r} below the working directory.") from None
    except asyncssh.SFTPPermissionDenied:
        raise ToolError(f"{shown!r} may not be opened: permission denied.") from None
    except asyncssh.SFTPError as exc:
        raise ToolError(f"{shown!r}: {exc.reason or exc}.") from None
    except (OSError, asyncssh.Error) as exc:
        raise ToolError(f"{shown!r} was not reached: the connection has failed ({exc}).") from None


async def _mode_of(sftp: asyncssh.SFTPClient, real: str, path: str) -> int | None:
    """The permissions of a regular file; None where there is none."""
    try:
        attributes = await sftp.lstat(real)
    except asyncssh.SFTPNoSuchFile:
        return None
    if not stat.S_ISREG(attributes.permissions or 0):
        raise ToolError(f"{path[:200]} is there already and is no regular file.")
    return stat.S_IMODE(attributes.permissions or 0)


def _entry(name: asyncssh.SFTPName) -> Entry:
    mode = name.attrs.permissions or 0
    kind: Literal["file", "folder", "link"]
    kind = "link" if stat.S_ISLNK(mode) else "folder" if stat.S_ISDIR(mode) else "file"
    text = name.filename
    return Entry(text.decode("utf-8", "replace") if isinstance(text, bytes) else text, kind)
