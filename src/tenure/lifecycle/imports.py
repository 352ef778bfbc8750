"""Importing a heavy module without stalling the loop.

An import in a thread still stalls the loop 60-110 ms through the interpreter lock and the garbage
collector. With collection off and a switch interval of 0.5 ms it is 5-13 ms; freezing afterwards
keeps later full collections from walking the new modules (measured on two cores, Python 3.11).
"""

from __future__ import annotations

import asyncio
import gc
import importlib
import sys
from types import ModuleType

from tenure.lifecycle.threads import call_in_thread

SWITCH_INTERVAL_S = 0.0005
_UNUSED = {"httpx": "httpx._main"}
"""What a package imports only if it can, and nothing here uses: its command line, in 45 ms."""
_LATE = {"httpx": ("httpcore", "httpcore._backends.anyio", "anyio._backends._asyncio")}
"""What a package imports at its first use, on the thread of whoever uses it: the loop's."""


class _Quiet:
    """Interpreter-wide settings, counted, since imports may overlap. Loop thread only."""

    __slots__ = ("collecting", "interval_s", "running")

    def __init__(self) -> None:
        self.running = 0
        self.collecting = True
        self.interval_s = 0.005

    def enter(self) -> None:
        if self.running == 0:
            self.collecting = gc.isenabled()
            self.interval_s = sys.getswitchinterval()
            gc.disable()
            sys.setswitchinterval(SWITCH_INTERVAL_S)
        self.running += 1

    def leave(self) -> None:
        self.running -= 1
        if self.running == 0:
            gc.freeze()
            sys.setswitchinterval(self.interval_s)
            if self.collecting:
                gc.enable()


_quiet = _Quiet()  # the interpreter has one collector and one switch interval


async def import_off_loop(module_name: str) -> ModuleType:
    """Import `module_name` in a thread, quietly; at once if it is imported already.

    Cancelling the caller lets the import go on, which is harmless.

    Raises:
        ImportError: as the import statement would.
    """
    if all(map(_imported, (module_name, *_LATE.get(module_name, ())))):
        return sys.modules[module_name]
    if unused := _UNUSED.get(module_name):
        modules: dict[str, ModuleType | None] = sys.modules  # type: ignore[assignment]
        modules.setdefault(unused, None)  # None: it cannot be imported
    _quiet.enter()
    future = call_in_thread(_import, module_name)
    future.add_done_callback(lambda _: _quiet.leave())
    return await asyncio.shield(future)


def _imported(name: str) -> bool:
    module = sys.modules.get(name)
    return module is not None and not getattr(module.__spec__, "_initializing", False)


def _import(name: str) -> ModuleType:
    module = importlib.import_module(name)
    for late in _LATE.get(name, ()):
        importlib.import_module(late)
    return module
