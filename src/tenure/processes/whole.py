"""What a gateway sets for its whole process: owned like everything else, and put back at its end.

A command that embeds a gateway, and a test, go on after it; what they start then must not wear the
mark of a gateway that is gone.
"""

from __future__ import annotations

import gc
import sys
from dataclasses import dataclass

from tenure.processes.brand import Worn, wear

SWITCH_INTERVAL_S = 0.0005


@dataclass(frozen=True, slots=True)
class WholeProcess:
    """What is set, and as it was before."""

    worn: Worn | None
    """None where the system does not take a mark."""
    switch_interval_s: float
    thresholds: tuple[int, int, int]

    @classmethod
    def claim(cls, instance: str) -> WholeProcess:
        """Mark this process and all that it starts from now on, and let threads alternate faster.

        Args:
            instance: see `wear`.

        Ownership: the caller puts it back, once, when nothing of the gateway runs any more.
        """
        before = cls(wear(instance), sys.getswitchinterval(), gc.get_threshold())
        # The store's writer computes in Python beside the loop: let the loop have the interpreter
        # back after half a millisecond instead of five.
        sys.setswitchinterval(SWITCH_INTERVAL_S)
        return before

    def put_back(self) -> None:
        """As it was before."""
        gc.set_threshold(*self.thresholds)
        sys.setswitchinterval(self.switch_interval_s)
        if self.worn is not None:
            self.worn.take_off()


def calm_collector() -> None:
    """Full collections over ten thousand sessions would stall the loop 40-80 ms; see docs."""
    gc.freeze()
    gc.enable()
    gc.set_threshold(20_000, 50, 1000)
