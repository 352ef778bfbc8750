"""Pids for trees of processes that were never all there at one moment."""

from __future__ import annotations


class Pid(int):
    """A pid that may be looked up only so often, so that going round in circles fails."""

    looks = 1_000

    def __hash__(self) -> int:
        self.looks -= 1
        assert self.looks, "it goes round in circles"
        return super().__hash__()
