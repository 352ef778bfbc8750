"""The table of guards: what a row says, and how its change is made.

`proof/guards/` mirrors `src/tenure/`: the guards of `sessions/actor.py` stand in
`guards/sessions/actor.diff`, in the order of the source. A row is

    case 26: busy is noticed late
    killed by tests/cases/test_case_26_one_turn_at_a_time.py::test_a_second_prompt_waits
    -        self.state, self.current = SessionState.RUNNING, turn
    +        self.current = turn

The first line says what is wrong without the guard; `guard:` stands in place of `case 26:` where it
belongs to no case. Each `killed by` names one test; one that fails is enough. `takes 12 s` warns of
a test that waits for its own limit before it fails. Then the change: lines that go, lines that
come, and unchanged ones (with a leading space) where the others alone are not unique. `@@` on a
line of its own begins a second place in the same file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "tenure"
GUARDS = ROOT / "proof" / "guards"

_HEAD = re.compile(r"(?:case (?P<case>\d+)|guard): (?P<about>.+)")
_KILLER = "killed by "
_TAKES = re.compile(r"takes (\d+) s")


class TableError(Exception):
    """A row cannot be read, or no longer fits the source; the sentence says which."""


class Hunk(NamedTuple):
    """One place in the file: these lines become those."""

    old: str
    new: str


class Mutant(NamedTuple):
    """One guard, and what removes it."""

    case: int
    """The number of its case; 0: of none."""
    about: str
    file: str
    """Below `src/tenure`."""
    killers: tuple[str, ...]
    """Node ids of tests."""
    hunks: tuple[Hunk, ...]
    line: int
    """Where the row stands in its table."""
    takes_s: int = 0
    """About how long its test waits for its own limit; 0: it fails at once."""

    @property
    def place(self) -> str:
        """The row, for people."""
        return f"proof/guards/{table_of(self.file)}:{self.line}"

    def applied(self) -> str:
        """The text of the file without the guard; it compiles.

        Raises:
            TableError: The source has changed under the row, or the result is no Python.
        """
        text = (SOURCE / self.file).read_text()
        for hunk in self.hunks:
            found = _positions(text, hunk.old)
            if len(found) != 1:
                many = "is not there" if not found else f"is there {len(found)} times"
                raise TableError(f"{self.place}: what goes {many} in {self.file}")
            at = found[0]
            text = text[:at] + hunk.new + text[at + len(hunk.old) :]
        try:
            compile(text, self.file, "exec")
        except SyntaxError as exc:
            raise TableError(f"{self.place}: the result does not compile ({exc})") from None
        return text


def table_of(file: str) -> str:
    """`sessions/actor.py` -> `sessions/actor.diff`."""
    return str(Path(file).with_suffix(".diff"))


def read_all() -> list[Mutant]:
    """Every row of every table, by file and in the order of each.

    Raises:
        TableError: A table cannot be read.
    """
    found: list[Mutant] = []
    for path in sorted(GUARDS.rglob("*.diff")):
        file = str(path.relative_to(GUARDS).with_suffix(".py"))
        found.extend(read_table(path.read_text(), file))
    return found


def read_table(text: str, file: str) -> Iterator[Mutant]:
    """The rows of one table, which is that of `file`.

    Raises:
        TableError: A line stands where none of its kind may.
    """
    start, rows = 0, text.splitlines()
    heads = [n for n, line in enumerate(rows) if _HEAD.fullmatch(line)]
    if any(line and not line.startswith("#") for line in rows[: heads[0] if heads else None]):
        raise TableError(f"proof/guards/{table_of(file)}:1: the first row has no head")
    for start, end in zip(heads, [*heads[1:], len(rows)], strict=True):
        yield _row(rows[start:end], file, start + 1)


def _row(lines: list[str], file: str, number: int) -> Mutant:
    head = _HEAD.fullmatch(lines[0])
    assert head is not None
    body = lines[1:]
    killers = tuple(line.removeprefix(_KILLER) for line in body if line.startswith(_KILLER))
    takes = [int(match[1]) for line in body if (match := _TAKES.fullmatch(line))]
    change = [line for line in body if line[:1] in {"", " ", "+", "-", "@", "\t"}]
    if len(killers) + len(takes) + len(change) != len(body):
        raise TableError(f"proof/guards/{table_of(file)}:{number}: a line of no kind")
    while change and not change[-1].strip():
        change.pop()
    hunks = tuple(_hunks(change))
    if not killers or not hunks or any(hunk.old == hunk.new for hunk in hunks):
        where = f"proof/guards/{table_of(file)}:{number}"
        raise TableError(f"{where}: a row needs a head, what kills it, and a change")
    return Mutant(int(head["case"] or 0), head["about"], file, killers, hunks, number, sum(takes))


def _hunks(lines: list[str]) -> Iterator[Hunk]:
    old: list[str] = []
    new: list[str] = []
    for line in [*lines, "@@"]:
        if line == "@@":
            if old or new:
                yield Hunk("".join(old), "".join(new))
            old, new = [], []
            continue
        text = f"{line[1:]}\n"
        if not line.startswith("+"):
            old.append(text)
        if not line.startswith("-"):
            new.append(text)


def _positions(text: str, lines: str) -> list[int]:
    """Where `lines` begin in `text`, at the beginning of a line."""
    found = [0] if text.startswith(lines) else []
    at = text.find("\n" + lines)
    while at >= 0:
        found.append(at + 1)
        at = text.find("\n" + lines, at + 1)
    return found


def chosen(mutants: Iterable[Mutant], selectors: Iterable[str]) -> list[Mutant]:
    """Those that any of `selectors` means: a case number, or a part of a file's path or of a text.

    All of them without a selector.
    """
    wanted = list(selectors)
    return [m for m in mutants if not wanted or any(_means(selector, m) for selector in wanted)]


def _means(selector: str, mutant: Mutant) -> bool:
    if selector.isdecimal():
        return mutant.case == int(selector)
    if selector.endswith(("/", ".py")):
        return mutant.file.startswith(selector)
    return selector in mutant.about
