"""What a content is, by its first bytes and never by its name. Pure."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Literal, NamedTuple

PROBE_BYTES = 1024
"""A PDF may begin with something else."""
Kind = Literal["image", "pdf", "text", "other"]


class Judged(NamedTuple):
    """What a content is. Pixels are 0 where its first bytes do not tell them."""

    kind: Kind
    type: str
    width: int = 0
    height: int = 0


def judge(content: bytes) -> Judged:
    """What `content` is; the size of an image is what it claims."""
    for type_, begins, size in _IMAGES:
        if begins(content):
            try:
                width, height = size(content)
            except (struct.error, IndexError):
                width = height = 0
            return Judged("image", type_, width, height)
    if b"%PDF-" in content[:PROBE_BYTES]:
        return Judged("pdf", "application/pdf")
    if text_of(content) is not None:
        return Judged("text", "text/plain")
    zipped = content.startswith((b"PK\x03\x04", b"PK\x05\x06"))
    return Judged("other", "application/zip" if zipped else "application/octet-stream")


def kind_of(content: bytes) -> Kind:
    """Likewise, the kind alone."""
    return judge(content).kind


def text_of(content: bytes) -> str | None:
    """The text that `content` is, or None: UTF-8, or UTF-16 that says so."""
    encoding = "utf-16" if content.startswith((b"\xff\xfe", b"\xfe\xff")) else "utf-8-sig"
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else text


def _png(content: bytes) -> tuple[int, int]:
    width, height = struct.unpack_from(">II", content, 16)
    return width, height


def _gif(content: bytes) -> tuple[int, int]:
    width, height = struct.unpack_from("<HH", content, 6)
    return width, height


def _bmp(content: bytes) -> tuple[int, int]:
    width, height = struct.unpack_from("<ii", content, 18)
    return abs(width), abs(height)


_FRAMES = frozenset({*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC})
"""Markers of a JPEG that are followed by its size."""


def _jpeg(content: bytes) -> tuple[int, int]:
    place = 2
    while place < len(content):
        if content[place] != 0xFF:
            break
        marker = content[place + 1]
        if marker in _FRAMES:
            height, width = struct.unpack_from(">HH", content, place + 5)
            return width, height
        if marker == 0xFF:  # a fill byte
            place += 1
        elif marker in {0x01, *range(0xD0, 0xD9)}:
            place += 2
        else:
            place += 2 + struct.unpack_from(">H", content, place + 2)[0]
    return 0, 0


def _webp(content: bytes) -> tuple[int, int]:
    form = content[12:16]
    if form == b"VP8X":
        wide, high = content[24:27], content[27:30]
        return 1 + int.from_bytes(wide, "little"), 1 + int.from_bytes(high, "little")
    if form == b"VP8L":
        bits = struct.unpack_from("<I", content, 21)[0]
        return 1 + (bits & 0x3FFF), 1 + ((bits >> 14) & 0x3FFF)
    width, height = struct.unpack_from("<HH", content, 26)
    return width & 0x3FFF, height & 0x3FFF


def _unknown(_content: bytes) -> tuple[int, int]:
    return 0, 0


def _brand(*brands: bytes) -> Callable[[bytes], bool]:
    return lambda content: content[4:8] == b"ftyp" and content[8:12] in brands


_IMAGES: tuple[
    tuple[str, Callable[[bytes], bool], Callable[[bytes], tuple[int, int]]], ...
] = (
    ("image/png", lambda c: c.startswith(b"\x89PNG\r\n\x1a\n"), _png),
    ("image/jpeg", lambda c: c.startswith(b"\xff\xd8\xff"), _jpeg),
    ("image/gif", lambda c: c.startswith((b"GIF87a", b"GIF89a")), _gif),
    ("image/webp", lambda c: c.startswith(b"RIFF") and c[8:12] == b"WEBP", _webp),
    ("image/bmp", lambda c: c.startswith(b"BM") and c[6:10] == b"\0\0\0\0", _bmp),
    ("image/tiff", lambda c: c.startswith((b"II*\0", b"MM\0*")), _unknown),
    ("image/avif", _brand(b"avif", b"avis"), _unknown),
    ("image/heic", _brand(b"heic", b"heix", b"hevc", b"mif1"), _unknown),
)  # fmt: skip
SENT = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
"""What providers take."""
