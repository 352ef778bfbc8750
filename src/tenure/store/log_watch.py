"""Whether the write-ahead log is still the one that we write to."""

from __future__ import annotations

from pathlib import Path

from tenure.errors import StoreError


class LogWatch:
    """Notices a write-ahead log that was removed or replaced under us.

    A second process that thinks it is the last one may unlink the log; commits into the deleted
    inode would look fine and be lost. A stat per batch (2 us) finds it before the next write.

    Args:
        path: the database's.
    """

    __slots__ = ("_inode", "_path")

    def __init__(self, path: Path) -> None:
        self._path = path.with_name(path.name + "-wal")
        self._inode: int | None = None

    def check(self) -> None:
        """Raises StoreError if it is another one than before."""
        if self._inode is not None and self._now() != self._inode:
            raise StoreError(
                f"The write-ahead log {self._path.name} was removed or replaced by another "
                "program while in use; stop that program and restart the gateway."
            )

    def remember(self) -> None:
        """Something was committed: the log that is there now is ours."""
        if self._inode is None:
            self._inode = self._now()

    def _now(self) -> int | None:
        try:
            return self._path.stat().st_ino
        except FileNotFoundError:
            return None
