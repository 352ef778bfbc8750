"""Running a module of ours in a child: the same interpreter and code, none of our variables."""

from __future__ import annotations

import sys
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[2]
_START = (
    "import runpy, sys; sys.path.insert(0, sys.argv.pop(1)); "
    "runpy.run_module(sys.argv.pop(1), run_name='__main__', alter_sys=False)"
)


def python_argv(module: str, *arguments: str) -> tuple[str, ...]:
    """The command that runs `module` (its ``__main__`` part) with `arguments`.

    Isolated: neither ``PYTHON*`` variables nor the working directory decide what is imported.
    """
    return (sys.executable, "-I", "-c", _START, str(_ROOT), module, *arguments)
