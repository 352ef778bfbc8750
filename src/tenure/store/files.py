"""Contents that came with prompts, and who refers to them. Rows are written, contents are not here.

They are part of `store/base.py`, which says what a write is. An entry of history with files refers
to them from the write that adds it to the one that drops it; what has no entry yet is held.
"""

from __future__ import annotations

import msgspec


class HoldUploads(msgspec.Struct, frozen=True):
    """A session refers to contents (digests in hexadecimal) without an entry; repeating is fine."""

    session_id: str
    digests: tuple[str, ...]


class ReleaseUploads(msgspec.Struct, frozen=True):
    """Undo `HoldUploads`; the result is how many that were. What entries refer to stays."""

    session_id: str
    digests: tuple[str, ...]
