"""Where the contents that came with prompts are kept: one place for each profile.

A content lies there once, under its digest, as long as something refers to it: an entry of history,
a prompt that waits, a draft (rows in the store). What is kept and what refers to it change under
one lock, so nothing is removed that somebody is just about to refer to.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from tenure.checkpoints.blobs import Blobs
from tenure.conversation import Upload
from tenure.errors import BadValue, ConfigError, StoreError, TooLarge
from tenure.ids import new_id
from tenure.lifecycle.scope import Scope
from tenure.lifecycle.threads import run_in_thread
from tenure.processes.spawn import Spawner
from tenure.store.base import Store
from tenure.uploads import limits
from tenure.uploads.kinds import SENT, Judged, judge, text_of
from tenure.uploads.workshop import Made, Told, Workshop, plain_name

AT_ONCE = 4
log = logging.getLogger("tenure.sessions")


class Taken(NamedTuple):
    """A file as it will be kept, and its contents, which are not kept yet."""

    upload: Upload
    contents: tuple[bytes, ...]


class Uploads:
    """Takes files in, keeps and gives their contents. Costs nothing until it is used.

    Args:
        folder: made on first use (0700).
        spawner: starts the child that unpacks images and PDFs.

    Attributes:
        turn: held while what is kept, or what refers to it, changes.
        gate: passed by whoever reads a file and takes it in: so many contents are in memory, and so
            many children run, at one time.
    """

    def __init__(self, folder: Path, spawner: Spawner) -> None:
        self._blobs = Blobs(folder)
        self._folder = folder
        self._workshop = Workshop(spawner)
        self._ready = False
        self.turn = asyncio.Lock()
        self.gate = asyncio.Semaphore(AT_ONCE)

    async def take_in(self, name: str, content: bytes, scope: Scope) -> Taken:
        """Judge a file by its content, and make of it what models take. Keeps nothing yet.

        Args:
            name: for people; only its last component counts.
            content: all of it.
            scope: ends the work on it.

        Raises:
            BadValue: it is empty, damaged, or nothing that can be used; one sentence.
            TooLarge: over the limit of its kind.
            ConfigError: the library that reads it is not installed.
        """
        shown = plain_name(name)
        if not content:
            raise BadValue(f"{shown} is empty.")
        found = await run_in_thread(scope, judge, content)
        _check_size(shown, found, len(content))
        if found.kind == "image":
            return await self._image(shown, found, content, scope)
        if found.kind == "pdf":
            return await self._pdf(shown, content, scope)
        upload = await run_in_thread(scope, _plain, shown, found, content)
        return Taken(upload, (content,))

    async def _image(self, name: str, found: Judged, content: bytes, scope: Scope) -> Taken:
        if found.type == "image/heic":
            raise BadValue(f"{name} is HEIC, which models do not take; make a JPEG or PNG of it.")
        try:
            made = await self._workshop.image(content, name, scope)
        except ConfigError:
            if not _is_usual(found, len(content)):
                raise
            # without the library it is believed what it says of itself
            told = Told(type=found.type, width=found.width, height=found.height)  # type: ignore[arg-type]
            made = Made(told, b"")
        told, kept = made.told, made.body or content
        size = {"width": told.width, "height": told.height}
        upload = await run_in_thread(scope, _upload, name, "image", told.type, kept, **size)
        return Taken(upload, (kept,))

    async def _pdf(self, name: str, content: bytes, scope: Scope) -> Taken:
        made = await self._workshop.pdf(content, name, scope)
        text = made.body
        upload = await run_in_thread(
            scope, _upload, name, "pdf", "application/pdf", content,
            pages=made.told.pages,
            chars=len(text.decode("utf-8", "replace")),
            text=Blobs.digest_of(text).hex() if text else "",
        )  # fmt: skip
        return Taken(upload, (content, text) if text else (content,))

    def keep(self, contents: Iterable[bytes]) -> None:
        """Keep contents. Blocks; `turn` is held.

        Raises:
            StoreError: they could not be written.
        """
        if not self._ready:
            self._blobs.prepare()
            self._ready = True
        self._blobs.check_room()
        for content in contents:
            self._blobs.keep(content)

    def read(self, digests: Iterable[str]) -> dict[str, bytes]:
        """Contents by their digests; one that is gone or damaged is left out. Blocks."""
        found: dict[str, bytes] = {}
        for digest in digests:
            try:
                found[digest] = self._blobs.content(bytes.fromhex(digest))
            except StoreError as exc:
                log.warning("A file of a prompt cannot be read: %s", exc)
        return found

    async def sweep(self, store: Store, scope: Scope, among: Iterable[str] | None = None) -> int:
        """Remove contents to which nothing refers; how many.

        Args:
            store: where the references stand.
            scope: owns the work.
            among: only these digests; None: all that are kept.

        Raises:
            StoreError: the references cannot be read; nothing was removed.
        """
        if among is None and not await run_in_thread(scope, self._folder.exists):
            return 0
        async with self.turn:
            referred = await store.uploads()
            return await run_in_thread(scope, self._remove_others, set(referred), among)

    def _remove_others(self, referred: set[str], among: Iterable[str] | None) -> int:
        kept = [digest.hex() for digest in self._blobs.sizes()] if among is None else among
        gone = [digest for digest in kept if digest not in referred]
        for digest in gone:
            self._blobs.remove(bytes.fromhex(digest))
        return len(gone)


def _check_size(name: str, found: Judged, size: int) -> None:
    """Refuse what is too large, an image also by the pixels that it claims: nothing is unpacked."""
    most = {"image": limits.IMAGE_BYTES_MAX, "pdf": limits.PDF_BYTES_MAX}.get(
        found.kind, limits.FILE_BYTES_MAX
    )
    if size > most:
        raise TooLarge(
            f"{name} has {size / 1_048_576:,.1f} MiB; the limit for such a file is "
            f"{most >> 20} MiB. Make it smaller, or put it into the working directory and name it."
        )
    if found.width * found.height > limits.PIXELS_MAX:
        raise TooLarge(
            f"{name} is {found.width:,} x {found.height:,} pixels; the limit is "
            f"{limits.PIXELS_MAX // 1_000_000} million. Make it smaller."
        )


def _is_usual(found: Judged, size: int) -> bool:
    """Whether an image can be kept as it is, going by what it says of itself."""
    edge = max(found.width, found.height)
    small = 0 < edge <= limits.KEPT_EDGE_MAX and size <= limits.KEPT_BYTES_MAX
    return found.type in SENT and small


def _plain(name: str, found: Judged, content: bytes) -> Upload:
    chars = len(text_of(content) or "") if found.kind == "text" else 0
    return _upload(name, found.kind, found.type, content, chars=chars)


def _upload(name: str, kind: str, type_: str, content: bytes, **more: object) -> Upload:
    """What a content is, with its digest: for a thread, since it may be large."""
    return Upload(
        id=new_id("file"),
        digest=Blobs.digest_of(content).hex(),
        kind=kind,  # type: ignore[arg-type]
        type=type_,
        name=name,
        size=len(content),
        **more,  # type: ignore[arg-type]
    )
