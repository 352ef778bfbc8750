"""Files for the next prompt of a session: the draft of whoever owns it.

A file is attached, waits (stored with the session, so it outlives the client and the gateway), and
goes with the next prompt. What waits is shown to all clients, is bounded, and can be taken off; it
ends with the session. A prompt that is not run after all gives its files back.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import msgspec

from tenure.conversation import Upload
from tenure.errors import BadValue, NotFound, Overloaded
from tenure.ids import whole_number
from tenure.lifecycle.threads import call_in_thread, run_in_thread
from tenure.paths import make_private
from tenure.sessions.uploaded import Uploads
from tenure.store.base import HoldUploads, Op, PatchSession, ReleaseUploads

if TYPE_CHECKING:
    from tenure.lifecycle.scope import Scope
    from tenure.sessions.actor import Session
    from tenure.sessions.resources import SessionPorts
    from tenure.sessions.sources import Offered
    from tenure.sessions.turns import LiveTurn
    from tenure.store.base import Store

DRAFT_MAX = 20
"""Files that wait for one prompt."""
DRAFT_BYTES_MAX = 100 * 1024 * 1024
COMMIT_GRACE_S = 60.0
"""How long the end of a copy may wait for the write that decides about it, on a slow disk."""
COPIES = "files"
"""Of the session's folder of whole outputs: where tools find what came from elsewhere."""


async def attach(session: Session, offered: Offered) -> Upload:
    """Attach a file to the next prompt. Returns after the commit.

    Cancellation: a client that leaves stops nothing that was begun to be stored.

    Raises:
        SessionClosing: the session is being closed.
        Overloaded: as much waits already as may.
        BadValue, TooLarge, ConfigError: see `Uploads.take_in`.
        StoreError: it could not be kept.
    """
    session.check_open()
    _check_room(session, offered.name, len(offered.content))
    kept = uploads_of(session)
    taken = await kept.take_in(offered.name, offered.content, session.scope)
    copy = _Copy(_folder(session), taken.upload, offered.path)
    lease = await session.scope.build_in_thread(
        "copy of a file", lambda: copy.make(offered.content), _Copy.end,
        grace_s=COMMIT_GRACE_S, label=taken.upload.name,
    )  # fmt: skip
    try:
        upload = msgspec.structs.replace(taken.upload, path=copy.path)
        async with kept.turn:
            await run_in_thread(session.scope, kept.keep, taken.contents)
            session.check_open()
            _check_room(session, upload.name, upload.size)
            session.draft = (*session.draft, upload)
            commit = copy.commit = session.journal.record(
                [
                    HoldUploads(session.id, upload.digests),
                    PatchSession(session.id, {"draft": session.draft}),
                ]
            )
            commit.add_done_callback(lambda done: _unless_stored(session, upload, done))
            await asyncio.shield(commit)
    finally:
        lease.release_nowait()
    tell(session)
    return upload


def _unless_stored(session: Session, upload: Upload, done: asyncio.Future[list[Any]]) -> None:
    if not _is_stored(done):
        session.draft = tuple(one for one in session.draft if one.id != upload.id)


async def detach(session: Session, name: str) -> Upload:
    """Take a file off: by its id, its path, its name, or its place (from 1).

    Raises:
        NotFound: nothing like that waits.
        SessionClosing: the session is being closed.
        StoreError: it is off, and may be back after a new start.
    """
    session.check_open()
    upload = _find(session.draft, name)
    session.draft = tuple(one for one in session.draft if one.id != upload.id)
    ops: list[Op] = [PatchSession(session.id, {"draft": session.draft})]
    copy = _Copy(_folder(session), upload, upload.path, ends_stored=True)
    copy.commit = session.journal.record([*ops, *_released(session, upload.digests)])
    lease = session.scope.own(
        "copy of a file", copy, _Copy.end, grace_s=COMMIT_GRACE_S, label=upload.name
    )
    try:
        await asyncio.shield(copy.commit)
    finally:
        lease.release_nowait()
    tell(session)
    return upload


def _find(draft: Sequence[Upload], name: str) -> Upload:
    for upload in reversed(draft):
        if name in {upload.id, upload.name} or (upload.path and name == upload.path):
            return upload
    number = whole_number(name) or 0
    if 0 < number <= len(draft):
        return draft[number - 1]
    there = ", ".join(upload.name for upload in draft) or "nothing"
    raise NotFound(f"No file {name[:80]!r} is attached; {there[:300]} waits for the next prompt.")


def uploads_of(session: Session) -> Uploads:
    """Where its files are kept.

    Raises:
        BadValue: nowhere.
    """
    if session.ports.uploads is None:
        raise BadValue("This gateway keeps no files.")
    return session.ports.uploads


def _check_room(session: Session, name: str, size: int) -> None:
    if len(session.draft) >= DRAFT_MAX:
        raise Overloaded(
            f"{DRAFT_MAX} files wait for the next prompt, which is the limit; send it, or take one "
            f"off, before {name[:80]} is attached."
        )
    if sum(upload.size for upload in session.draft) + size > DRAFT_BYTES_MAX:
        raise Overloaded(
            f"With {name[:80]} more than {DRAFT_BYTES_MAX >> 20} MiB would wait for the next "
            "prompt; send it first, or take a file off."
        )


def warning_of(session: Session, upload: Upload) -> str:
    """What the session's model, if it is known, will not take of a file; empty: nothing."""
    agent = session.agent
    if upload.kind == "image" and agent is not None and agent.model.sight.images is False:
        return (
            f"{agent.model.ref} cannot see images; choose a model that can (/model) before the "
            "prompt is sent."
        )
    if upload.kind == "pdf" and not upload.text and agent and not agent.model.sight.pdfs:
        return f"No text could be read in {upload.name}, and {agent.model.ref} takes no PDFs."
    return ""


# --- with a prompt ------------------------------------------------------------------------------


def take(session: Session) -> tuple[Upload, ...]:
    """All that waits goes with a prompt; `begins` stores that. Synchronous."""
    taken, session.draft = session.draft, ()
    if taken:
        tell(session)
    return taken


def give_back(session: Session, files: Sequence[Upload]) -> None:
    """A prompt is not run after all: its files wait for the next one, as far as there is room."""
    if files and session.scope.admits:
        session.draft = (*files, *session.draft)[:DRAFT_MAX]
        session.journal.record_nowait([PatchSession(session.id, {"draft": session.draft})])
        tell(session)


def takes(session: Session, turn: LiveTurn) -> list[Op]:
    """Part of the write that stores a new prompt: the draft is empty."""
    return [PatchSession(session.id, {"draft": session.draft})] if turn.files else []


def starts(session: Session, turn: LiveTurn, *, fresh: bool = False) -> list[Op]:
    """Part of the write that starts a prompt: from now on an entry refers to its files.

    A fresh one is stored by the same write; see `takes`.
    """
    if not turn.files:
        return []
    digests = [digest for one in turn.files for digest in one.digests]
    return [*(takes(session, turn) if fresh else ()), *_released(session, digests, turn)]


def ends(session: Session, turn: LiveTurn) -> list[Op]:
    """Part of the write that ends a prompt; one that never ran lets go of its files."""
    return starts(session, turn) if turn.recorder is None else []


def closes(session: Session, *, goes_on: bool) -> list[Op]:
    """Part of the write that ends a session: its draft ends with it, unless it goes on."""
    if goes_on or not session.draft:
        return []
    digests = tuple(digest for upload in session.draft for digest in upload.digests)
    session.draft = ()
    return [PatchSession(session.id, {"draft": ()}), ReleaseUploads(session.id, digests)]


def _released(session: Session, digests: Iterable[str], but: LiveTurn | None = None) -> list[Op]:
    """Let go of what neither the draft nor another waiting prompt needs."""
    waits = [
        *session.draft,
        *(one for turn in session.queue if turn is not but for one in turn.files),
    ]
    needed = {digest for upload in waits for digest in upload.digests}
    gone = tuple(dict.fromkeys(digest for digest in digests if digest not in needed))
    return [ReleaseUploads(session.id, gone)] if gone else []


async def read(session: Session, digests: Sequence[str]) -> dict[str, bytes]:
    """Contents for the model; what is gone is left out."""
    kept = session.ports.uploads
    return {} if kept is None else await run_in_thread(session.scope, kept.read, digests)


async def find_upload(store: Store, session_id: str, name: str) -> Upload:
    """A file of a session by its id: one that waits, or that stands in the history.

    Raises:
        NotFound: there is no such session or file.
    """
    row = await store.session(session_id)
    if row is None:
        raise NotFound(f"No session {session_id}; `tenure sessions list` shows them.")
    files = [one for item in await store.history(session_id) for one in item.message.files]
    files += [one for turn in await store.turns(session_id) for one in turn.files]
    for upload in (*files, *row.draft):
        if upload.id == name:
            return upload
    raise NotFound(f"Session {session_id} has no file {name[:80]!r}.")


async def content_of(ports: SessionPorts, upload: Upload, scope: Scope) -> bytes:
    """A content.

    Raises:
        NotFound: it is gone.
    """
    kept = ports.uploads
    found = {} if kept is None else await run_in_thread(scope, kept.read, (upload.digest,))
    if upload.digest not in found:
        raise NotFound(f"The content of {upload.name} is gone.")
    return found[upload.digest]


# --- showing ------------------------------------------------------------------------------------


def tell(session: Session) -> None:
    """Show clients what waits."""
    session.journal.transient("prompt.files", {"entries": rows(session.draft)})


def rows(files: Sequence[Upload]) -> list[dict[str, Any]]:
    """Files for clients."""
    return [row(upload) for upload in files]


def row(upload: Upload) -> dict[str, Any]:
    """One file for clients."""
    shown = msgspec.to_builtins(upload)
    return {
        **{key: shown[key] for key in shown if key not in {"digest", "text"}},
        "about": upload.about,
    }


# --- where tools find it ------------------------------------------------------------------------


def _folder(session: Session) -> Path:
    return session.ports.spill / session.id / COPIES


class _Copy:
    """A file of ours there, which stays exactly if what is stored refers to it.

    Args:
        folder: of the session's copies.
        upload: what is copied.
        path: where the file is already; anywhere else than in `folder` it is not ours.
        ends_stored: the write takes the reference away, instead of making it.

    Attributes:
        commit: that write, once it has begun.
    """

    def __init__(
        self, folder: Path, upload: Upload, path: str, *, ends_stored: bool = False
    ) -> None:
        self.path = path
        self.commit: asyncio.Future[list[Any]] | None = None
        self._folder = folder
        self._upload = upload
        self._ends_stored = ends_stored

    def make(self, content: bytes) -> Self:
        """Copy it, unless it is somewhere already. Blocks."""
        self.path = self.path or _copy(self._folder, self._upload, content)
        return self

    async def end(self) -> None:
        """Whoever has asked for it may have left; the write goes on."""
        stored = False
        if self.commit is not None:
            await asyncio.wait({self.commit})
            stored = _is_stored(self.commit)
        if stored is self._ends_stored and Path(self.path).parent == self._folder:
            await call_in_thread(_remove, Path(self.path))


def _is_stored(commit: asyncio.Future[list[Any]]) -> bool:
    return not commit.cancelled() and commit.exception() is None


def _copy(folder: Path, upload: Upload, content: bytes) -> str:
    """Put the whole file where the session's tools can read it; empty if the disk refuses."""
    path = folder / f"{upload.id[-6:]}-{upload.name}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        make_private(folder)
        with open(os.open(path, flags, 0o600), "wb") as file:  # noqa: PTH123 - a descriptor
            file.write(content)
    except OSError:
        _remove(path)
        return ""
    return str(path)


def _remove(path: Path) -> None:
    with contextlib.suppress(OSError):
        path.unlink(missing_ok=True)
