"""``tenure`` with a probe in the gateway: what only the inside can tell, asked by a signal.

The command in ``$PROOF_PROBE/probe.ask`` is answered in ``probe.answer`` when SIGUSR2 comes; at
rest the probe holds nothing: no task, no thread, no descriptor. Nothing of it is in the product.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import json
import os
import signal
import sys
import tracemalloc
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

import tenure.cli.serve as serving
from tenure.cli.main import main

TOP = 15
_before: list[tracemalloc.Snapshot] = []


def _tasks() -> int:
    # The probe runs in a signal handler, where no loop may be asked for; the set of all is there.
    return sum(not task.done() for task in list(asyncio.tasks._all_tasks))  # type: ignore[attr-defined]


def _trim() -> int:
    gc.collect()
    try:
        return int(ctypes.CDLL(None).malloc_trim(0))
    except AttributeError:
        return 0


def _grown() -> list[str]:
    """What has grown since the last time this was asked; the gateway traces from its start."""
    gc.collect()
    now = tracemalloc.take_snapshot()
    told = []
    if _before:
        for one in now.compare_to(_before[-1], "traceback")[:TOP]:
            where = " < ".join(
                f"{f.filename.rpartition('/')[2]}:{f.lineno}" for f in reversed(one.traceback)
            )
            told.append(f"{one.size_diff:+} bytes in {one.count_diff:+} blocks: {where}")
    _before[:] = [now]
    return told


def _answer(command: str) -> Any:
    if command == "count":
        return {"tasks": _tasks()}
    if command == "trim":
        return _trim()
    if command == "grown":
        return _grown()
    if command == "objects":
        gc.collect()
        return Counter(
            type(o).__module__ + "." + type(o).__qualname__ for o in gc.get_objects()
        ).most_common(400)
    if command == "passed":
        from proof.real.faults import passed

        return dict(passed)
    raise ValueError(command)


def _on_signal(_signum: int, _frame: FrameType | None) -> None:
    folder = Path(os.environ["PROOF_PROBE"])
    try:
        answer = _answer((folder / "probe.ask").read_text())
    except Exception as exc:  # noqa: BLE001 - told to who asks
        answer = {"error": repr(exc)}
    written = folder / "probe.part"
    written.write_text(json.dumps(answer))
    written.rename(folder / "probe.answer")


def install() -> None:
    """Have the probe answer in this process from now on; once the guard stands."""
    plain = serving.serve

    def serve(*args: Any, **kwargs: Any) -> Any:
        signal.signal(signal.SIGUSR2, _on_signal)
        if fault := os.environ.get("PROOF_FAULT"):
            from proof.real.faults import arm

            arm(fault)
        return plain(*args, **kwargs)

    serving.serve = serve


if __name__ == "__main__":
    install()
    sys.argv[0] = "tenure"
    main()
