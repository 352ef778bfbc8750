"""file.*, image.*, pdf.*, clipboard.paste, prompt.files.*: files for the next prompt."""

from __future__ import annotations

import base64
from typing import Any

from tenure.agent.context import CHARS_PER_TOKEN
from tenure.agent.showing import tokens_of
from tenure.conversation import Upload
from tenure.errors import BadValue, NotFound, TenureError
from tenure.ids import checked_session_id
from tenure.lifecycle.threads import run_in_thread
from tenure.protocol import methods as m, uploads as p
from tenure.rpc.handlers.attach import changing
from tenure.rpc.ports import Call
from tenure.sessions.actor import Session
from tenure.sessions.clipboard import image_in_clipboard
from tenure.sessions.sources import Offered, from_base64, from_path, spellings
from tenure.sessions.uploads import (
    attach,
    content_of,
    detach,
    find_upload,
    rows,
    uploads_of,
    warning_of,
)
from tenure.uploads.kinds import kind_of

PART_BYTES = 6 * 1024 * 1024
"""Of a content in one answer; in base64 it fits into a frame."""
LOOK = "Look at the attached image."
READ = "Read the attached PDF."


async def file_attach(params: p.FileAttach, call: Call) -> p.FileAttached:
    """Attach a file of any kind, by path or content."""
    session = changing(call, params.session_id)
    async with uploads_of(session).gate:
        offered = await _offered(session, call, params.path, params.data_url, params.name)
        upload = await attach(session, offered)
    return p.FileAttached(
        attached=True, id=upload.id, name=upload.name, kind=upload.kind, about=upload.about,
        path=upload.path, ref_path=upload.path, ref_text="", uploaded=not params.path,
        count=len(session.draft), warning=warning_of(session, upload),
    )  # fmt: skip


async def file_read(params: p.FileRead, call: Call) -> p.FilePart:
    """A part of the content of a file that waits or stands in the history; live or stored."""
    session_id = checked_session_id(params.session_id)
    profile = call.gateway.sessions.profile_of(session_id, params.profile)
    async with call.gateway.profiles.using_ports(profile) as ports:
        upload = await find_upload(ports.store, session_id, params.id)
        content = await content_of(ports, upload, call.peer.scope)
    end = params.offset + PART_BYTES
    packed = base64.b64encode(content[params.offset : end]).decode()
    return p.FilePart(
        name=upload.name, type=upload.type, size=upload.size, offset=params.offset,
        content_base64=packed, more=end < upload.size,
    )  # fmt: skip


async def image_attach(params: p.ImageAttach, call: Call) -> p.ImageAttached:
    """Attach an image of the gateway's machine, named as it was typed or dropped."""
    session = changing(call, params.session_id)
    async with uploads_of(session).gate:
        offered, rest = await _named(session, call, params.path)
        return _image(session, await _attach_only(session, offered, "image"), rest)


async def image_attach_bytes(params: p.ImageAttachBytes, call: Call) -> p.ImageAttached:
    """Attach an image whose content is sent."""
    session = changing(call, params.session_id)
    name = params.filename or f"image.{params.ext.lstrip('.') or 'png'}"
    sent = params.content_base64 or params.data
    async with uploads_of(session).gate:
        offered = await run_in_thread(session.scope, from_base64, name, sent)
        return _image(session, await _attach_only(session, offered, "image"), "")


async def image_detach(params: p.ImageDetach, call: Call) -> p.ImageDetached:
    """Take a file off."""
    session = changing(call, params.session_id)
    try:
        await detach(session, params.path)
    except NotFound:
        return p.ImageDetached(detached=False, count=_images(session))
    return p.ImageDetached(detached=True, count=_images(session))


async def pdf_attach(params: p.PdfAttach, call: Call) -> p.PdfAttached:
    """Attach a PDF, whole."""
    session = changing(call, params.session_id)
    sent = params.content_base64 or params.data
    name = params.filename or "document.pdf"
    async with uploads_of(session).gate:
        offered = await _offered(session, call, params.path, sent, name)
        upload = await _attach_only(session, offered, "pdf")
    if params.first_page > 1 or (params.last_page or upload.pages) < upload.pages:
        await detach(session, upload.id)
        raise BadValue("Only whole PDFs are attached; make a PDF of the pages that are wanted.")
    return p.PdfAttached(
        attached=True, id=upload.id, filename=upload.name, path=upload.path, pages=upload.pages,
        pages_attached=upload.pages, count=len(session.draft), text=READ,
        warning=warning_of(session, upload),
    )  # fmt: skip


async def clipboard_paste(params: m.ForSession, call: Call) -> dict[str, Any]:
    """Attach the image that is in the clipboard of the gateway's machine."""
    session = changing(call, params.session_id)
    if not call.peer.near:
        return {"attached": False, "message": "The clipboard is on another machine than this."}
    async with uploads_of(session).gate:
        found = await image_in_clipboard(session)
        if isinstance(found, str):
            return {"attached": False, "message": found}
        upload = await _attach_only(session, found, "image")
    shown = _image(session, upload, "")
    return {"attached": True, "path": upload.path, "count": shown.count, "name": upload.name,
            "width": upload.width, "height": upload.height,
            "token_estimate": shown.token_estimate}  # fmt: skip


async def prompt_files_list(params: m.ForSession, call: Call) -> p.FileRows:
    """What waits for the next prompt."""
    return p.FileRows(rows(call.gateway.sessions.get(params.session_id).draft))


async def prompt_files_remove(params: p.FileRemove, call: Call) -> p.FileRows:
    """Take a file off."""
    session = changing(call, params.session_id)
    await detach(session, params.id)
    return p.FileRows(rows(session.draft))


async def dropped(session: Session, call: Call, text: str) -> dict[str, Any]:
    """What a dropped text means: an image or a PDF is attached; empty: it names neither.

    Raises:
        TenureError: it names one, and that cannot be attached.
    """
    async with uploads_of(session).gate:
        try:
            offered, rest = await _named(session, call, text)
        except TenureError:
            return {}
        kind = kind_of(offered.content)
        if kind not in {"image", "pdf"}:
            return {}
        upload = await attach(session, offered)
    shown = _image(session, upload, rest)
    said = rest or (LOOK if kind == "image" else READ)
    return {"matched": True, "is_image": kind == "image", "path": upload.path, "name": upload.name,
            "count": shown.count, "text": said, "width": upload.width, "height": upload.height,
            "token_estimate": shown.token_estimate}  # fmt: skip


async def _offered(session: Session, call: Call, path: str, sent: str, name: str) -> Offered:
    """The file that a request is about.

    Raises:
        BadValue: it names none, or two.
    """
    if bool(path) == bool(sent):
        raise BadValue("Give either a path or the file's content.")
    if path:
        return await from_path(session, path, near=call.peer.near)
    return await run_in_thread(session.scope, from_base64, name, sent)


async def _named(session: Session, call: Call, text: str) -> tuple[Offered, str]:
    """The file that a text begins with, and what is said after it."""
    error: TenureError = NotFound(f"{text[:200]!r} names no file.")
    for path, rest in spellings(text):
        try:
            return await from_path(session, path, near=call.peer.near), rest
        except NotFound as exc:
            error = exc
    raise error


async def _attach_only(session: Session, offered: Offered, kind: str) -> Upload:
    """Attach what must be of one kind."""
    if kind_of(offered.content) != kind:
        what = "an image" if kind == "image" else "a PDF"
        raise BadValue(f"{offered.name[:200]} is not {what}; /attach takes files of any kind.")
    return await attach(session, offered)


def _images(session: Session) -> int:
    return sum(upload.kind == "image" for upload in session.draft)


def _image(session: Session, upload: Upload, rest: str) -> p.ImageAttached:
    return p.ImageAttached(
        attached=True, id=upload.id, name=upload.name, path=upload.path, count=_images(session),
        remainder=rest, text=LOOK, bytes=upload.size, width=upload.width, height=upload.height,
        token_estimate=tokens_of(upload, CHARS_PER_TOKEN), warning=warning_of(session, upload),
    )  # fmt: skip
