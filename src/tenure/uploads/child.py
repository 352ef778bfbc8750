"""The child that unpacks what came from outside: images and PDFs, with bounded memory and time.

    python -m tenure.uploads.child image EDGE_MAX BYTES_MAX PIXELS_MAX
    python -m tenure.uploads.child pdf PAGES_MAX CHARS_MAX SECONDS

The content comes on standard input. The answer is one line of JSON (`Told`), then bytes. Whatever
a damaged or hostile file does to the libraries here ends with this process.
"""

from __future__ import annotations

import io
import json
import resource
import sys
import time
from typing import Any

MEMORY_BYTES_MAX = 2 * 1024 * 1024 * 1024
CPU_S_MAX = 60
FORMATS = ("PNG", "JPEG", "GIF", "WEBP", "BMP", "TIFF", "AVIF")
_TYPES = {"PNG": "image/png", "JPEG": "image/jpeg", "GIF": "image/gif", "WEBP": "image/webp"}
ORIENTATION = 0x0112
"""Of EXIF: how a camera was held. Models do not read it."""
QUALITIES = (88, 75, 60)


class Refused(Exception):  # noqa: N818 - no fault: an answer
    """Nothing can be made of it; says why, as the end of a sentence."""


def main(arguments: list[str]) -> int:
    """Answer one request."""
    for kind, most in (
        (resource.RLIMIT_AS, MEMORY_BYTES_MAX),
        (resource.RLIMIT_CPU, CPU_S_MAX),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(kind, (most, most))
    job, *limits = arguments
    content = sys.stdin.buffer.read()
    try:
        work = _image if job == "image" else _pdf
        told, body = work(content, *map(int, limits))
    except Refused as exc:
        told, body = {"refused": str(exc)}, b""
    except ModuleNotFoundError as exc:
        told, body = {"missing": exc.name}, b""
    except MemoryError:
        told, body = {"refused": "needs too much memory when it is unpacked"}, b""
    except Exception as exc:  # noqa: BLE001 - whatever a library says of a damaged file
        told, body = {"refused": f"is damaged ({_short(exc)})"}, b""
    sys.stdout.buffer.write(json.dumps(told).encode() + b"\n" + body)
    sys.stdout.buffer.flush()
    return 0


def _short(exc: Exception) -> str:
    text = " ".join(str(exc).split()).replace("<_io.BytesIO object", "<it")
    return text[:120].rstrip(".") or type(exc).__name__


# --- images -------------------------------------------------------------------------------------


def _image(
    content: bytes, edge_max: int, bytes_max: int, pixels_max: int
) -> tuple[dict[str, Any], bytes]:
    """The image as providers take it; no bytes where it can stay as it is."""
    from PIL import Image, ImageOps, UnidentifiedImageError

    Image.MAX_IMAGE_PIXELS = None  # judged here, before anything is unpacked
    try:
        found = Image.open(io.BytesIO(content), formats=FORMATS)
    except UnidentifiedImageError:
        raise Refused("is no image that can be read; make a PNG or JPEG of it") from None
    with found:
        width, height = found.size
        if width * height > pixels_max:
            raise Refused(
                f"is {width:,} x {height:,} pixels, over the limit of {pixels_max:,}; make it "
                "smaller"
            )
        upright = found.getexif().get(ORIENTATION, 1) == 1
        kept = found.format in _TYPES and upright and max(width, height) <= edge_max
        found.load()
        if kept and len(content) <= bytes_max:
            told = {"type": _TYPES[str(found.format)], "width": width, "height": height}
            return told, b""
        photo = found.format == "JPEG"
        image = ImageOps.exif_transpose(found)
        if image.mode not in {"RGB", "RGBA", "L"}:
            image = image.convert("RGBA" if image.has_transparency_data else "RGB")
        image.thumbnail((edge_max, edge_max), Image.Resampling.LANCZOS)
        return _packed(image, bytes_max, photo=photo)


def _packed(image: Any, bytes_max: int, *, photo: bool) -> tuple[dict[str, Any], bytes]:
    """As a PNG, or as a JPEG where that is too large or it was one."""
    from PIL import Image

    shown = {"width": image.width, "height": image.height}
    if not photo:
        packed = io.BytesIO()
        image.save(packed, "PNG")
        if packed.tell() <= bytes_max:
            return {"type": "image/png", **shown}, packed.getvalue()
    if image.mode == "RGBA":
        white = Image.new("RGB", image.size, "white")
        white.paste(image, mask=image.getchannel("A"))
        image = white
    for quality in QUALITIES:
        packed = io.BytesIO()
        image.save(packed, "JPEG", quality=quality)
        if packed.tell() <= bytes_max:
            return {"type": "image/jpeg", **shown}, packed.getvalue()
    raise Refused("cannot be made small enough")


# --- PDFs ---------------------------------------------------------------------------------------


def _pdf(
    content: bytes, pages_max: int, chars_max: int, seconds: int
) -> tuple[dict[str, Any], bytes]:
    """The text of a PDF, page by page, as far as there is room and time."""
    import logging

    from pypdf import PdfReader

    logging.disable(logging.CRITICAL)
    ends = time.monotonic() + seconds
    reader = PdfReader(io.BytesIO(content))
    if reader.is_encrypted and not reader.decrypt(""):
        raise Refused("is protected by a password; remove that first")
    pages = len(reader.pages)
    if pages > pages_max:
        raise Refused(f"has {pages:,} pages; the limit is {pages_max:,}")
    if pages == 0:
        raise Refused("has no pages")
    texts: list[str] = []
    room, cut = chars_max, False
    for number, page in enumerate(reader.pages, 1):
        if room <= 0 or time.monotonic() > ends:
            cut = True
            break
        text = page.extract_text().strip()
        if text:
            text = f"[page {number}]\n{text}"[:room]
            room -= len(text)
            texts.append(text)
    body = "\n\n".join(texts).encode("utf-8", "replace")
    return {"pages": pages, "cut": cut}, body


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
