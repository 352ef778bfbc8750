"""A store whose commits can be held up."""

from __future__ import annotations

from tenure.testing.gates import Gate
from tenure.testing.store import MemoryStore


class SlowStore(MemoryStore):
    """Its commits wait between `block` and `unblock`."""

    def block(self) -> Gate:
        """Commits wait from now on; the gate at which they do."""
        self._gate = Gate()
        return self._gate

    def unblock(self) -> None:
        """Those that wait are made, and others as usual."""
        gate, self._gate = self._gate, None
        assert gate is not None
        gate.release()
