"""Keeping the head and the tail of a long text."""

from __future__ import annotations


def clip(text: str, bytes_max: int, note: str = "") -> str:
    """`text`, or its head and tail with a marker between them that counts what is missing.

    Args:
        text: anything.
        bytes_max: limit of the result's UTF-8 size in bytes, the marker (below 100 bytes plus
            `note`) not counted.
        note: added to the marker, such as where the whole is.
    """
    raw = text.encode("utf-8", "surrogatepass")
    if len(raw) <= bytes_max:
        return text
    head = raw[: bytes_max * 2 // 3].decode("utf-8", "ignore")
    tail = raw[len(raw) - bytes_max // 3 :].decode("utf-8", "ignore") if bytes_max >= 3 else ""
    missing = len(raw) - len(head.encode()) - len(tail.encode())
    return f"{head}\n{marker(missing, note)}\n{tail}"


def marker(missing: int, note: str = "") -> str:
    """The line that stands for `missing` bytes."""
    return f"[… {missing} bytes left out{'; ' + note if note else ''} …]"
