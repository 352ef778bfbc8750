"""The tree that is drawn in errors.py is the tree that is there."""

from __future__ import annotations

import inspect
import re

from tenure import errors
from tenure.errors import TenureError

LINE = re.compile(r"^(?P<indent>[ │├└─]*)(?P<name>[A-Z]\w+)\s*(?P<code>-?\d+)?")


def drawn() -> dict[str, tuple[str | None, int | None]]:
    """Each class with its parent and code, as drawn."""
    found: dict[str, tuple[str | None, int | None]] = {}
    path: list[str] = []
    in_tree = False
    for line in (errors.__doc__ or "").splitlines():
        if line.strip() == "TenureError":
            in_tree, found["TenureError"], path = True, (None, None), ["TenureError"]
            root = len(line) - len(line.lstrip())
        elif in_tree:
            if not line.strip():
                break
            match = LINE.match(line)
            assert match, line
            depth = (len(match["indent"]) - root) // 4
            path[depth:] = [match["name"]]
            found[match["name"]] = (path[depth - 1], int(match["code"]) if match["code"] else None)
    return found


def classes() -> dict[str, type[TenureError]]:
    return {
        name: thing
        for name, thing in inspect.getmembers(errors, inspect.isclass)
        if issubclass(thing, TenureError)
    }


def test_the_docstring_draws_exactly_the_classes():
    assert set(drawn()) == set(classes())


def test_parents_and_codes_as_drawn():
    for name, (parent, code) in drawn().items():
        cls = classes()[name]
        if parent is not None:
            assert cls.__bases__[0].__name__ == parent, name
        if code is not None:
            assert cls.code == code, name


def test_leaves_have_codes_of_their_own():
    """A client tells errors apart by their code; only a parent may share with one child."""
    leaves = [cls for cls in classes().values() if not cls.__subclasses__()]
    codes = [cls.code for cls in leaves]
    assert len(codes) == len(set(codes))


def test_every_class_says_what_it_means():
    assert not [
        name for name, cls in classes().items() if "__doc__" not in vars(cls) or not cls.__doc__
    ]
