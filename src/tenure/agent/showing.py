"""Files of prompts as one request shows them: as they are to a model that takes them, else a text.

History holds what a file is, never its content. Before each request the newest files are fetched,
within a budget that every provider takes; older ones, and what the model cannot take, become a
line, and texts are put into the message.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence

import msgspec

from tenure.conversation import Message, Upload
from tenure.errors import ModelBlind
from tenure.models.base import Sight
from tenure.tools.clip import clip

IMAGES_MAX = 20
"""Of one request: what every provider takes, whatever their size."""
BYTES_MAX = 14 * 1024 * 1024
"""Of images and PDFs in one request; in base64 under the 20 MB that every provider takes."""
PDF_BYTES_MAX = 8 * 1024 * 1024
PDF_PAGES_MAX = 100
"""A longer or larger PDF is shown as text."""
TEXT_CHARS_MAX = 64 * 1024
"""Of one file in a request; the rest is for tools."""
IMAGE_TOKENS = 1_600
PAGE_TOKENS = 1_500
LINE_TOKENS = 40

Fetch = Callable[[Sequence[str]], Awaitable[Mapping[str, bytes]]]


class Shown(msgspec.Struct, frozen=True):
    """The messages of a request, and the contents of the files that still stand in them."""

    messages: tuple[Message, ...]
    media: dict[str, bytes]
    unseen: tuple[str, ...] = ()
    """Names of images that this model cannot see."""


def tokens_of(upload: Upload, chars_per_token: float) -> int:
    """About what a file takes of the window."""
    if upload.kind == "image":
        pixels = upload.width * upload.height
        return LINE_TOKENS + min(IMAGE_TOKENS, pixels // 750 if pixels else IMAGE_TOKENS)
    text = int(min(upload.chars, TEXT_CHARS_MAX) / chars_per_token)
    if upload.kind == "pdf" and upload.pages <= PDF_PAGES_MAX:
        return LINE_TOKENS + max(text, upload.pages * PAGE_TOKENS)
    return LINE_TOKENS + text


def in_words(message: Message) -> Message:
    """The message without its files; a line says of each that it was there. Pure."""
    lines = [f"[{upload.about}: no longer shown]" for upload in message.files]
    return msgspec.structs.replace(message, text="\n".join([message.text, *lines]), files=())


def check_sight(messages: Sequence[Message], sight: Sight, ref: str) -> None:
    """See to it that the model can see the images of what was asked last.

    Raises:
        ModelBlind: it cannot.
    """
    asked = next((m for m in reversed(messages) if m.asks), None)
    images = [one.name for one in asked.files if one.kind == "image"] if asked else []
    if images and sight.images is False:
        names = ", ".join(images[:5])
        raise ModelBlind(
            f"{ref} cannot see images ({names}); choose a model that can (/model), then ask again: "
            "the image is still there.",
            provider=ref.partition(":")[0],
        )


async def show(messages: tuple[Message, ...], sight: Sight, fetch: Fetch, text_max: int) -> Shown:
    """The messages as this model is shown them.

    Args:
        messages: history that fits.
        sight: what the model takes as it is.
        fetch: gives contents by digest.
        text_max: characters of one file's text at the most.
    """
    if not any(message.files for message in messages):
        return Shown(messages, {})
    budget = _Budget(sight)
    native = {
        upload.id
        for message in reversed(messages)
        for upload in reversed(message.files)
        if budget.takes(upload)
    }
    files = [upload for message in messages for upload in message.files]
    wanted = [one.digest if one.id in native else one.text or one.digest for one in files
              if one.id in native or one.kind in {"pdf", "text"}]  # fmt: skip
    contents = await fetch(tuple(dict.fromkeys(wanted)))
    shown = tuple(
        _shown(message, native, contents, min(text_max, TEXT_CHARS_MAX)) if message.files
        else message
        for message in messages
    )  # fmt: skip
    kept = {upload.digest for message in shown for upload in message.files}
    blind = sight.images is False
    unseen = tuple(one.name for one in files if blind and one.kind == "image")
    return Shown(shown, {key: contents[key] for key in contents if key in kept}, unseen)


class _Budget:
    """What one request still takes, newest first."""

    def __init__(self, sight: Sight) -> None:
        self._sight = sight
        self._images = IMAGES_MAX
        self._bytes = BYTES_MAX
        self._pages = PDF_PAGES_MAX

    def takes(self, upload: Upload) -> bool:
        """Whether a file goes as it is; if so, it is counted."""
        if upload.size > self._bytes:
            return False
        if upload.kind == "image" and self._sight.images is not False and self._images:
            self._images -= 1
        elif (
            upload.kind == "pdf"
            and self._sight.pdfs
            and upload.size <= PDF_BYTES_MAX
            and upload.pages <= self._pages
        ):
            self._pages -= upload.pages
        else:
            return False
        self._bytes -= upload.size
        return True


def _shown(
    message: Message, native: set[str], contents: Mapping[str, bytes], text_max: int
) -> Message:
    """One message: its text, a part for each file, and the files that go as they are."""
    files = tuple(one for one in message.files if one.id in native and one.digest in contents)
    parts = [message.text]
    for upload in message.files:
        where = f", for tools at {upload.path}" if upload.path else ""
        head = f"[attached: {upload.about}{where}]"
        if upload in files:
            parts.append(head)
        else:
            parts.append(_told(upload, head, contents, text_max))
    text = "\n\n".join(part for part in parts if part)
    return msgspec.structs.replace(message, text=text, files=files)


def _told(upload: Upload, head: str, contents: Mapping[str, bytes], text_max: int) -> str:
    if upload.kind == "image":
        return f"{head[:-1]}; you are not shown the image itself]"
    if upload.kind == "other":
        return f"{head[:-1]}; it is no text]"
    content = contents.get(upload.text or upload.digest)
    if content is None or (upload.kind == "pdf" and not upload.text):
        why = "no text could be read in it" if upload.kind == "pdf" else "its content is gone"
        return f"{head[:-1]}; {why}]"
    utf16 = content.startswith((b"\xff\xfe", b"\xfe\xff"))
    text = content.decode("utf-16" if utf16 else "utf-8-sig", "replace")
    # The name stands at both ends, so that nothing in the text can pass for the person's words.
    return f"{head}\n{clip(text, text_max)}\n[end of {upload.name}]"
