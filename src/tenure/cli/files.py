"""Files of prompts: `run --attach` sends them, by path or content; `export --files` saves them."""

from __future__ import annotations

import base64
import os
from contextlib import suppress
from pathlib import Path, PurePath
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from tenure.errors import BadValue, NotFound, TenureError, TooLarge
from tenure.paths import is_file, is_there, named
from tenure.protocol.messages import FRAME_BYTES_MAX

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from tenure.client import Client

SENT_BYTES_MAX = FRAME_BYTES_MAX // 4 * 3 - 64 * 1024
"""Of a content: in base64 it must fit into one frame."""
_HERE = frozenset({"", "127.0.0.1", "localhost", "::1"})


def found(paths: Sequence[str]) -> tuple[Path, ...]:
    """The files that were named, absolute.

    Raises:
        BadValue: one is not there, or no file.
    """
    files = tuple(named(path).absolute() for path in paths)
    for file in files:
        if not is_there(file):
            raise BadValue(f"There is no file {str(file)!r} to attach.")
        if not is_file(file):
            raise BadValue(f"{str(file)!r} is no regular file; attach files one by one.")
    return files


async def attach_all(
    client: Client, session: str, files: Sequence[Path], connect: str, note: Callable[[str], None]
) -> None:
    """Attach files to the next prompt of a session, all or none.

    Args:
        client: speaks to the gateway.
        session: whose prompt.
        files: absolute paths on this machine.
        connect: the gateway's URL if one was given; elsewhere it gets contents instead of paths.
        note: told what was attached.

    Raises:
        TenureError: one was refused; what was attached before is off again.
    """
    far = (urlsplit(connect).hostname or "") not in _HERE
    attached: list[str] = []
    for file in files:
        try:
            named = _content(file) if far else {"path": str(file)}
            told = await client.call("file.attach", session_id=session, **named)
        except TenureError:
            for upload in attached:
                with suppress(TenureError):
                    await client.call("prompt.files.remove", session_id=session, id=upload)
            raise
        attached.append(told["id"])
        note(f"attached {told['about']}")
        if told.get("warning"):
            note(told["warning"])


def _content(file: Path) -> dict[str, str]:
    try:
        content = file.read_bytes() if file.stat().st_size <= SENT_BYTES_MAX else None
    except OSError as exc:
        raise BadValue(f"{str(file)!r} cannot be read: {exc.strerror}.") from None
    if content is None:
        raise TooLarge(
            f"{file.name} is over {SENT_BYTES_MAX / 1_048_576:.0f} MiB, the most that can be sent "
            "to a gateway on another machine."
        )
    return {"data_url": base64.b64encode(content).decode(), "name": file.name}


async def save_all(
    client: Client, profile: str, session: str, messages: Sequence[dict[str, Any]], folder: Path
) -> None:
    """Save every file that came with a message, and note in the message where.

    Raises:
        BadValue: the folder cannot be written.
    """
    from tenure.home import write_private

    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)  # noqa: PTH103 - nothing else runs here
        for file in (file for message in messages for file in message.get("files", ())):
            content = await _whole(client, profile, session, file["id"])
            name = PurePath(f"{file['id']}-{file['name']}").name
            file["saved"] = "" if content is None else name
            if content is not None:
                write_private(folder / name, content)
    except OSError as exc:
        raise BadValue(f"{folder} cannot be written: {exc.strerror}.") from None


async def _whole(client: Client, profile: str, session: str, name: str) -> bytes | None:
    """A content, part by part; None if it is gone."""
    content = b""
    while True:
        try:
            part = await client.call(
                "file.read", session_id=session, profile=profile, id=name, offset=len(content)
            )
        except NotFound:
            return None
        content += base64.b64decode(part["content_base64"])
        if not part["more"]:
            return content
