"""Rules that no linter knows."""

from __future__ import annotations

import ast
import re
from pathlib import Path

FORBIDDEN_NAMES = re.compile(r"(Manager|Helper|Utils?|Service)$")
FORBIDDEN_FILES = re.compile(r"(^|_)(utils?|helpers?|managers?|services?|misc|common)\.py$")

SWALLOWS = {ast.Pass, ast.Continue}


def test_names(written):
    found = [
        f"{source.at(node)} {node.name}"
        for source in written
        for node in ast.walk(source.tree)
        if isinstance(node, ast.ClassDef) and FORBIDDEN_NAMES.search(node.name)
    ]
    found += [source.name for source in written if FORBIDDEN_FILES.search(source.path.name)]
    assert not found


def is_broad(handler: ast.ExceptHandler) -> bool:
    if handler.type is None:
        return True
    types = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(isinstance(t, ast.Name) and t.id in {"Exception", "BaseException"} for t in types)


def test_broad_handlers_do_something_and_say_why(written):
    found = []
    for source in written:
        lines = source.text.splitlines()
        for node in ast.walk(source.tree):
            if not isinstance(node, ast.ExceptHandler) or not is_broad(node):
                continue
            if len(node.body) == 1 and type(node.body[0]) in SWALLOWS:
                found.append(f"{source.at(node)} swallows everything")
            reraises = any(isinstance(n, ast.Raise) and n.exc is None for n in ast.walk(node))
            logs = any(
                isinstance(n, ast.Attribute) and n.attr == "exception" for n in ast.walk(node)
            )
            if not reraises and not logs and "#" not in lines[node.lineno - 1]:
                found.append(f"{source.at(node)} does not say why it catches everything")
    assert not found


def test_children_are_started_in_processes_only(sources):
    """The layer contract bans the import; this bans the other ways."""
    ways = {
        "fork",
        "forkpty",
        "posix_spawn",
        "posix_spawnp",
        "system",
        "popen",
        "spawnv",
        "spawnve",
    }
    ways |= {"create_subprocess_exec", "create_subprocess_shell", "subprocess_exec"}
    found = [
        f"{source.at(node)} {node.attr}"
        for source in sources
        if "/processes/" not in source.name
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Attribute)
        and node.attr in ways
        and isinstance(node.value, ast.Name)
        and node.value.id in {"os", "asyncio", "loop", "pty"}
    ]
    assert not found


TASKS = {"create_task", "ensure_future", "run_in_executor"}


def test_tasks_are_made_in_lifecycle_only(sources):
    """The linter sees `asyncio.create_task`; a loop's or a task group's method it does not."""
    found = [
        f"{source.at(node)} {node.func.attr}"
        for source in sources
        if "/lifecycle/" not in source.name and "/testing/" not in source.name
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in TASKS
    ]
    assert not found


def test_no_release_in_del(written):
    found = [
        source.at(node)
        for source in written
        for node in ast.walk(source.tree)
        if isinstance(node, ast.FunctionDef) and node.name == "__del__"
    ]
    assert not found


def test_nothing_private_is_committed(committed, root):
    """No file names the folders in which this checkout and its user live."""
    places = [f"{place}/".encode() for place in (root, Path.home())]
    found = [
        f"{path.relative_to(root)}: {place.decode()}"
        for path in committed
        for place in places
        if place in path.read_bytes()
    ]
    assert not found


def test_modules_say_what_they_are_for(written):
    found = [source.name for source in written if not ast.get_docstring(source.tree)]
    assert not found
