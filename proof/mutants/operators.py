"""``python -m proof mutants --operators lifecycle/``: a second opinion, without a table.

Mutants that nobody chose: every condition is once never and once always true, every call that
stands alone is left out, every comparison is widened or narrowed. Each runs all unit tests of its
package, then the tests from elsewhere that the table names for its file. A survivor is equivalent,
cosmetic, or a hole; a person judges which.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from proof.mutants.table import GUARDS, ROOT, SOURCE, Hunk, Mutant, read_table, table_of

_SWAPPED: dict[type[ast.cmpop], str] = {
    ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Is: "is not", ast.IsNot: "is",
    ast.Eq: "!=", ast.NotEq: "==", ast.In: "not in", ast.NotIn: "in",
}  # fmt: skip
_TYPES = "TYPE_CHECKING"
"""What stands below it is for the type checker alone."""
_QUIET = {"log", "logger", "warnings"}
"""What they say is for people; no test reads it all."""


def generated(folder: str) -> list[Mutant]:
    """Every mutant of the files below `folder` (`lifecycle/`), or of one file."""
    place = SOURCE / folder
    files = [place] if place.is_file() else sorted(place.rglob("*.py"))
    return [mutant for path in files for mutant in _of(path)]


def _of(path: Path) -> Iterator[Mutant]:
    text = path.read_text()
    file = str(path.relative_to(SOURCE))
    tests = _killers(file)
    if not tests:
        return
    for node in ast.walk(ast.parse(text)):
        for about, span, new in _changes(node, text):
            start, end = _offset(text, span, first=True), _offset(text, span, first=False)
            changed = text[:start] + new + text[end:]
            said = f"line {span.lineno}: {about}"
            yield Mutant(0, said, file, tests, (Hunk(text, changed),), span.lineno)


def _killers(file: str) -> tuple[str, ...]:
    """The unit tests of its package, those that bear its name first; then what its table names."""
    folder = f"tests/unit/{Path(file).parts[0]}"
    own = f"test_{Path(file).name}"
    units = sorted((ROOT / folder).glob("test_*.py"), key=lambda path: (path.name != own, path))
    table = GUARDS / table_of(file)
    rows = read_table(table.read_text(), file) if table.exists() else ()
    named = (killer for row in rows for killer in row.killers)
    elsewhere = (killer for killer in named if not killer.startswith(f"{folder}/"))
    return (*(str(path.relative_to(ROOT)) for path in units), *dict.fromkeys(elsewhere))


def _changes(node: ast.AST, text: str) -> Iterator[tuple[str, ast.expr, str]]:
    if isinstance(node, ast.If | ast.While | ast.IfExp) and ast.unparse(node.test) != _TYPES:
        for value in ("False",) if isinstance(node, ast.While) else ("False", "True"):
            yield f"`{ast.unparse(node.test)}` is {value}", node.test, value
    if isinstance(node, ast.Expr):
        call = node.value.value if isinstance(node.value, ast.Await) else node.value
        if isinstance(call, ast.Call) and ast.unparse(call).split(".", 1)[0] not in _QUIET:
            yield f"`{ast.unparse(node)}` is left out", node.value, "None"
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        left, right = node.left, node.comparators[0]
        new = f"{ast.unparse(left)} {_SWAPPED[type(node.ops[0])]} {ast.unparse(right)}"
        yield f"`{ast.unparse(node)}` becomes `{new}`", node, f"({new})"


def _offset(text: str, node: ast.expr, *, first: bool) -> int:
    line, column = (
        (node.lineno, node.col_offset) if first else (node.end_lineno, node.end_col_offset)
    )
    assert line is not None
    assert column is not None
    lines = text.splitlines(keepends=True)
    ahead = lines[line - 1].encode()[:column].decode()
    return sum(map(len, lines[: line - 1])) + len(ahead)
