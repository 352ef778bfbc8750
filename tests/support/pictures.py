"""Images and PDFs for tests, made without any library."""

from __future__ import annotations

import base64
import struct
import zlib


def png(width: int = 40, height: int = 30, *, shown: tuple[int, int] | None = None) -> bytes:
    """A grey PNG; with `shown` it claims another size than it has."""
    row = b"\0" + b"\x80" * width
    wide, high = shown or (width, height)
    head = struct.pack(">IIBBBBB", wide, high, 8, 0, 0, 0, 0)
    return b"".join(
        [
            b"\x89PNG\r\n\x1a\n",
            _chunk(b"IHDR", head),
            _chunk(b"IDAT", zlib.compress(row * height)),
            _chunk(b"IEND", b""),
        ]
    )


def _chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def pdf(*pages: str) -> bytes:
    """A PDF with a line of text on each page."""
    objects = [b"<< /Type /Catalog /Pages 2 0 R >>", b""]
    font = b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>"
    kids = []
    for text in pages:
        number = len(objects) + 1
        kids.append(f"{number} 0 R")
        stream = f"BT /F1 12 Tf 20 50 Td ({text}) Tj ET".encode()
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 300 100] /Contents {number + 1} 0 R "
            f"/Resources << /Font << /F1 {3 + 2 * len(pages)} 0 R >> >> >>".encode()
        )
        objects.append(b"<< /Length %d >>\nstream\n%b\nendstream" % (len(stream), stream))
    objects.append(font)
    objects[1] = f"<< /Type /Pages /Kids [{' '.join(kids)}] /Count {len(kids)} >>".encode()
    out = bytearray(b"%PDF-1.4\n")
    places = []
    for number, body in enumerate(objects, 1):
        places.append(len(out))
        out += b"%d 0 obj\n%b\nendobj\n" % (number, body)
    start = len(out)
    out += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    out += b"".join(b"%010d 00000 n \n" % place for place in places)
    out += b"trailer << /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (
        len(objects) + 1, start,
    )  # fmt: skip
    return bytes(out)


def b64(content: bytes) -> str:
    return base64.b64encode(content).decode()
