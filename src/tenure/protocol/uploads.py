"""Files for the next prompt of a session: attach, list, take off."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from tenure.protocol.params import ForSession

Path = Annotated[str, msgspec.Meta(max_length=8192)]


class FileAttach(ForSession, kw_only=True):
    """Params of file.attach: a path of the gateway's machine, or a content."""

    path: Path = ""
    """Absolute, below ``~``, or relative to the working directory."""
    data_url: str = ""
    """``data:TYPE;base64,…``, or base64 alone; a frame bounds it to about 11 MiB of content."""
    name: str = ""
    """For a content; a path has its own."""


class FileAttached(msgspec.Struct, kw_only=True):
    """Result of file.attach."""

    attached: bool
    id: str
    name: str
    kind: str
    """image, pdf, text or other: by its content."""
    about: str
    """It in a line, for people."""
    path: str
    """Where the agent's tools find it."""
    ref_path: str
    ref_text: str
    """What a client should put into the prompt: nothing, the file goes along by itself."""
    uploaded: bool
    """Its content was sent, so `path` is a copy."""
    count: int
    """Files that wait now."""
    warning: str = ""
    """What the session's model will not take of it."""


class ImageAttach(ForSession, kw_only=True):
    """Params of image.attach."""

    path: Path
    """As typed or dropped: quoted, with escaped blanks, or ``file://``; words may follow."""


class ImageAttachBytes(ForSession, kw_only=True):
    """Params of image.attach_bytes: base64 (or a data URL) in either of two members."""

    content_base64: str = ""
    data: str = ""
    filename: str = ""
    ext: str = ""


class ImageAttached(msgspec.Struct, kw_only=True):
    """Result of image.attach and image.attach_bytes."""

    attached: bool
    id: str
    name: str
    path: str
    count: int
    """Images that wait now."""
    remainder: str
    """What was said after the path."""
    text: str
    """What to say where nothing was."""
    bytes: int
    width: int
    height: int
    token_estimate: int
    warning: str = ""
    """What the session's model will not take of it."""


class ImageDetach(ForSession, kw_only=True):
    """Params of image.detach."""

    path: Path
    """Its path, name or id, or its place, from 1."""


class ImageDetached(msgspec.Struct, kw_only=True):
    """Result of image.detach."""

    detached: bool
    count: int


class PdfAttach(ForSession, kw_only=True):
    """Params of pdf.attach: a path, or base64 (or a data URL) in either of two members."""

    path: Path = ""
    content_base64: str = ""
    data: str = ""
    filename: str = ""
    first_page: int = 1
    last_page: int | None = None
    """A whole PDF is attached; a wish for some pages is refused if it leaves any out."""


class PdfAttached(msgspec.Struct, kw_only=True):
    """Result of pdf.attach."""

    attached: bool
    id: str
    filename: str
    path: str
    pages: int
    pages_attached: int
    count: int
    text: str
    warning: str = ""


class FileRemove(ForSession, kw_only=True):
    """Params of prompt.files.remove."""

    id: Path
    """Its id, name or path, or its place, from 1."""


class FileRead(ForSession, kw_only=True):
    """Params of file.read."""

    id: Annotated[str, msgspec.Meta(max_length=80)]
    """Of a file that waits, or that a message of the history has."""
    offset: Annotated[int, msgspec.Meta(ge=0)] = 0
    """In bytes."""
    profile: str = ""
    """Of the session, if it is not live."""


class FilePart(msgspec.Struct, kw_only=True):
    """Result of file.read: a part of a content, so that each fits into a frame."""

    name: str
    type: str
    size: int
    """Bytes of the whole."""
    offset: int
    content_base64: str
    more: bool


class FileRows(msgspec.Struct):
    """Result of prompt.files.*: ``{id, kind, type, name, size, about, path, …}`` in order."""

    entries: list[dict[str, Any]]


Anything = dict[str, Any]

UPLOAD_METHODS: dict[str, tuple[type[msgspec.Struct], Any, str]] = {
    "file.attach": (FileAttach, FileAttached, "Attach a file to the next prompt, of any kind."),
    "image.attach": (ImageAttach, ImageAttached, "Attach an image of the gateway's machine."),
    "image.attach_bytes": (ImageAttachBytes, ImageAttached, "Attach an image that is sent."),
    "image.detach": (ImageDetach, ImageDetached, "Take an attached file off."),
    "pdf.attach": (PdfAttach, PdfAttached, "Attach a PDF, by path or content."),
    "clipboard.paste": (ForSession, Anything, "Attach the image in the machine's clipboard."),
    "file.read": (FileRead, FilePart, "A part of the content of a file that came with a prompt."),
    "prompt.files.list": (ForSession, FileRows, "The files that wait for the next prompt."),
    "prompt.files.remove": (FileRemove, FileRows, "Take a file off that waits."),
}
"""name -> (params, result, about)"""
