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
from typing import Literal

import asyncssh

from tenure.errors import ToolError
from tenure.sandbox.base import FILE_BYTES_MAX, Entry


async def read(sftp: asyncssh.SFTPClient, root: str, path: str) -> bytes:
    """See `Files.read`."""
    async with _told(path):
        real = await _below(sftp, root, path)
        attributes = await sftp.stat(real)
        if not stat.S_ISREG(attributes.permissions or 0):
            raise ToolError(f"{path[:200]} is no regular file.")
        if (attributes.size or 0) > FILE_BYTES_MAX:
            raise ToolError(f"{path[:200]} is over {FILE_BYTES_MAX} bytes; use a command.")
        async with sftp.open(real, "rb", encoding=None) as file:
            content: bytes = await file.read(FILE_BYTES_MAX)
            return content


async def write(sftp: asyncssh.SFTPClient, root: str, path: str, content: bytes) -> bool:
    """See `Files.write`."""
    async with _told(path):
        await _make_parents(sftp, root, path)
        real = await _below(sftp, root, path)
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


async def entries(sftp: asyncssh.SFTPClient, root: str, path: str) -> list[Entry]:
    """See `Files.entries`."""
    async with _told(path):
        names = await sftp.readdir(await _below(sftp, root, path))
    return [_entry(name) for name in names if name.filename not in {".", ".."}]


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


async def _below(sftp: asyncssh.SFTPClient, root: str, path: str) -> str:
    """The real path of `path`, which need not exist itself, and lies below the real root.

    Raises:
        ToolError: it leads out.
    """
    top = str(await sftp.realpath(root))
    asked = posixpath.normpath(posixpath.join(root, path))
    if "\0" in path or ".." in path.split("/"):
        raise ToolError(f"{path[:200]!r} is not below the working directory {root}.")
    if asked == posixpath.normpath(root):
        return top
    folder, name = posixpath.split(asked)
    real = posixpath.join(str(await sftp.realpath(folder)), name)
    if await sftp.islink(real):
        real = str(await sftp.realpath(real))
    if real != top and not real.startswith(f"{top.rstrip('/')}/"):
        raise ToolError(f"{path[:200]!r} leads out of the working directory {root}; stay below it.")
    return real


async def _make_parents(sftp: asyncssh.SFTPClient, root: str, path: str) -> None:
    folder = posixpath.dirname(path)
    made = ""
    for piece in folder.split("/") if folder and not folder.startswith("/") else ():
        made = posixpath.join(made, piece)
        real = await _below(sftp, root, made)
        if not await sftp.exists(real):
            await sftp.mkdir(real)


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
