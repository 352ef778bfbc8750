"""A mutant in a process that has imported the package already: its functions get other code.

Importing the package is most of what a quick test costs. A mutant that changes nothing but bodies
of functions needs no new import: every function object of the module is found, and given the code
that it would have had. Any other mutant is imported as usual, over its overlay.
"""

from __future__ import annotations

import gc
import importlib
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import CodeType, FunctionType

from proof.mutants.table import SOURCE, Mutant

_COLD = frozenset({"cli", "bench"})
"""What hardly a test of a guard imports."""


def warm() -> None:
    """Import the package, so that each fork has it."""
    for path in sorted(SOURCE.rglob("*.py")):
        name = module_of(str(path.relative_to(SOURCE)))
        if path.name != "__main__.py" and name.split(".")[1:2] not in [[cold] for cold in _COLD]:
            with suppress(ImportError):
                importlib.import_module(name)
    for one in gc.get_objects():
        if isinstance(one, FunctionType):
            _found.setdefault(one.__module__, []).append(one)
    gc.freeze()  # a fork that collects garbage would copy every page of it


_found: dict[str, list[FunctionType]] = {}
"""The functions of each module, methods and properties included."""


def module_of(file: str) -> str:
    """`sessions/actor.py` -> `tenure.sessions.actor`."""
    parts = [SOURCE.name, *Path(file).with_suffix("").parts]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def swap(mutant: Mutant) -> bool:
    """Let the functions of the imported module be those of `mutant`; False where that is not all.

    Nothing has been changed then.
    """
    module = sys.modules.get(module_of(mutant.file))
    if module is None:
        return False
    path = str(SOURCE / mutant.file)
    before = compile(Path(path).read_text(), path, "exec", dont_inherit=True)
    after = compile(mutant.applied(), path, "exec", dont_inherit=True)
    try:
        pairs = dict(_functions(before, after))
    except _OtherwiseDifferentError:
        return False
    there = _found.get(module.__name__, [])
    changes = [(one, pairs[one.__code__]) for one in there if one.__code__ in pairs]
    # A body that is shared by closures is found in the code around it, which is changed as well.
    missing = set(pairs) - {one.__code__ for one, _ in changes}
    if missing or any(one.__code__.co_freevars != new.co_freevars for one, new in changes):
        return False
    for one, new in changes:
        one.__code__ = new
    return True


def forget() -> None:
    """Forget the package, so that the next import reads it anew."""
    for name in [name for name in sys.modules if name.split(".")[0] == SOURCE.name]:
        del sys.modules[name]


class _OtherwiseDifferentError(Exception):
    """Something outside functions has changed."""


def _functions(before: CodeType, after: CodeType) -> Iterator[tuple[CodeType, CodeType]]:
    """The functions of a module or class whose code differs: as it is, and as it would be."""
    if _frame(before) != _frame(after):
        raise _OtherwiseDifferentError
    for old, new in zip(_nested(before), _nested(after), strict=True):
        if old.co_flags & 2 == 0:  # no fast locals: the body of a class
            yield from _functions(old, new)
        elif _essence(old) != _essence(new):
            yield old, new


def _nested(code: CodeType) -> list[CodeType]:
    return [const for const in code.co_consts if isinstance(const, CodeType)]


def _frame(code: CodeType) -> tuple[object, ...]:
    """What a body does itself, without the functions in it and wherever it stands."""
    consts = tuple(
        const.co_name if isinstance(const, CodeType) else (type(const), const)
        for const in code.co_consts
    )
    return code.co_code, code.co_names, code.co_varnames, code.co_freevars, consts


def _essence(code: CodeType) -> tuple[object, ...]:
    """What a function does, wherever it stands."""
    return (
        code.co_code, code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars,
        tuple(
            _essence(const) if isinstance(const, CodeType) else (type(const), const)
            for const in code.co_consts
        ),
    )  # fmt: skip
