"""Server-sent events, sans I/O: bytes in, events out.

Follows the WHATWG grammar as far as model servers use it: lines end with LF, CRLF or CR, wherever
the pieces are cut; a blank line ends an event; lines that begin with a colon are comments; several
``data`` lines are joined by LF; one leading BOM is dropped; ``id`` and ``retry`` are ignored.
Everything stays bytes, so a UTF-8 character may be cut anywhere.
"""

from __future__ import annotations

EVENT_BYTES_MAX = 8 * 1024 * 1024
"""One event may be this large; a server that sends more is not speaking this protocol."""

Event = tuple[bytes, bytes]
"""``(event name, data)``; the name is empty for an ordinary message."""

_BOM = b"\xef\xbb\xbf"


class EventTooLargeError(ValueError):
    """An event is over the limit."""


class SseReader:
    """Turns pieces of a stream into events. Holds at most one unfinished event."""

    __slots__ = ("_buffer", "_bytes_max", "_cr", "_fresh", "_scanned")

    def __init__(self, bytes_max: int = EVENT_BYTES_MAX) -> None:
        self._buffer = bytearray()
        self._scanned = 0  # bytes of the buffer known to hold no blank line
        self._bytes_max = bytes_max
        self._cr = False  # the last piece ended with CR: a LF that follows belongs to it
        self._fresh = True  # nothing read yet: a BOM may come

    def feed(self, piece: bytes) -> list[Event]:
        """The events that `piece` completes.

        Raises:
            EventTooLargeError: an unfinished event has grown over the limit.
        """
        if self._cr or b"\r" in piece:
            piece = self._with_lf(piece)
        buffer = self._buffer
        buffer += piece
        if self._fresh and len(buffer) >= len(_BOM):
            self._fresh = False
            if buffer.startswith(_BOM):
                del buffer[: len(_BOM)]
        events: list[Event] = []
        start = 0
        end = buffer.find(b"\n\n", self._scanned)
        while end >= 0:
            _parse_block(bytes(buffer[start:end]), events)
            start = end + 2
            end = buffer.find(b"\n\n", start)
        if start:
            del buffer[:start]
        self._scanned = max(len(buffer) - 1, 0)
        if len(buffer) > self._bytes_max:
            raise EventTooLargeError(f"one event is over {self._bytes_max} bytes")
        return events

    def close(self) -> list[Event]:
        """What stands unfinished at the end of the stream, read as if a blank line followed.

        The grammar would drop it; some servers forget the last blank line.
        """
        events: list[Event] = []
        _parse_block(bytes(self._buffer), events)
        self._buffer.clear()
        self._scanned = 0
        return events

    def _with_lf(self, piece: bytes) -> bytes:
        if self._cr and piece.startswith(b"\n"):
            piece = piece[1:]
            self._cr = False
        if piece:
            self._cr = piece.endswith(b"\r")
        return piece.replace(b"\r\n", b"\n").replace(b"\r", b"\n")


def _parse_block(block: bytes, events: list[Event]) -> None:
    """Append the event that `block` (lines between blank lines) means, if it has data."""
    if block.startswith(b"data: ") and b"\n" not in block:  # what nearly every event looks like
        events.append((b"", block[6:]))
        return
    name = b""
    lines: list[bytes] = []
    for line in block.split(b"\n"):
        field, colon, value = line.partition(b":")
        if not field:
            continue  # an empty line or a comment
        if colon and value.startswith(b" "):
            value = value[1:]
        if field == b"data":
            lines.append(value)
        elif field == b"event":
            name = value
        elif field == b"error":  # older llama.cpp servers say so, outside the grammar
            name = b"error"
            lines.append(value)
    if lines:
        events.append((name, b"\n".join(lines)))
