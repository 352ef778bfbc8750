"""Sizes: what does not fit a reader's head is split."""

from __future__ import annotations

import ast

FUNCTION_LINES_MAX = 70
FILE_LINES_MAX = 500
PARAMETERS_MAX = 6
NAMED_MAX = 8
"""Keyword-only ones included: they are named where they are given."""

EXEMPT = {"own", "reserve", "build", "build_in_thread", "spawn", "__init__"}
"""Records of an acquisition or of what a call is given: keyword arguments with names that speak."""


def functions(tree):
    return (n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef))


def code_lines(node) -> int:
    """Lines of the body without its docstring."""
    first, *rest = node.body
    is_doc = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    if is_doc and not rest:
        return 1
    start = rest[0] if is_doc else first
    return (node.end_lineno or 0) - start.lineno + 1


def test_functions(written):
    found = [
        f"{source.at(node)} {node.name}: {code_lines(node)} lines"
        for source in written
        for node in functions(source.tree)
        if code_lines(node) > FUNCTION_LINES_MAX
    ]
    assert not found


def test_files(written):
    found = [
        f"{source.name}: {lines} lines"
        for source in written
        if (lines := source.text.count("\n")) > FILE_LINES_MAX
    ]
    assert not found


def test_parameters(written):
    found = []
    for source in written:
        for node in functions(source.tree):
            positional = [a.arg for a in (*node.args.posonlyargs, *node.args.args)]
            count = len([a for a in positional if a not in {"self", "cls"}])
            total = count + len(node.args.kwonlyargs)
            command = any(".command(" in ast.unparse(d) for d in node.decorator_list)
            if command or (count <= PARAMETERS_MAX + 1 and node.name in EXEMPT):
                continue  # a command has one parameter a flag
            if count > PARAMETERS_MAX or total > NAMED_MAX:
                found.append(f"{source.at(node)} {node.name}: {total} parameters")
    assert not found
