"""Statements of the hot path, compiled once by the toolkit and run by the driver."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from tenure.errors import StoreError

ROWS_MAX = 64
"""Of one INSERT; beyond it there are several."""


class Hot:
    """One statement.

    Its parameters and its rows must need no conversion by the toolkit (text, numbers, bytes).
    """

    __slots__ = ("_names", "_sql", "_statement")

    def __init__(self, statement: sa.Executable) -> None:
        self._statement = statement
        self._sql: dict[int, str] = {}
        """By how many rows it is for."""
        self._names: tuple[str, ...] = ()

    def __call__(self, db: Connection, values: Mapping[str, Any]) -> int:
        """Run it; how many rows it changed."""
        cursor = self._run(db, values)
        count: int = cursor.rowcount
        cursor.close()
        return count

    def scalar(self, db: Connection, values: Mapping[str, Any]) -> Any:
        """Run it; the first column of the first row, None without a row."""
        cursor = self._run(db, values)
        row = cursor.fetchone()
        cursor.close()
        return row[0] if row else None

    def many(self, db: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
        """Run an INSERT of one row for several rows, in statements of 64, 32, 16 … 1 of them.

        Each statement hands the interpreter to the loop's thread and waits to have it back.
        """
        done = 0
        while done < len(rows):
            count = min(ROWS_MAX, 1 << (len(rows) - done).bit_length() - 1)
            self._run(db, *rows[done : done + count]).close()
            done += count

    def _run(self, db: Connection, *rows: Mapping[str, Any]) -> Any:
        sql = self._sql.get(len(rows)) or self._compile(db, len(rows))
        cursor = db.connection.cursor()
        cursor.execute(sql, [values[name] for values in rows for name in self._names])
        return cursor

    def _compile(self, db: Connection, rows: int) -> str:
        compiled = self._statement.compile(dialect=db.dialect)  # type: ignore[attr-defined]
        self._names = tuple(compiled.positiontup)
        sql = str(compiled)
        if rows > 1:
            head, values, row = sql.partition(" VALUES ")
            sql = head + values + ", ".join([row] * rows)
        self._sql[rows] = sql
        return sql


class Patches:
    """UPDATE statements by the columns they change; few sets of columns ever occur."""

    __slots__ = ("_made", "_where")

    def __init__(self, where: Callable[[], tuple[sa.Table, sa.ColumnElement[bool]]]) -> None:
        self._where = where
        self._made: dict[tuple[str, ...], Hot] = {}

    def __call__(self, db: Connection, row_id: str, changes: Mapping[str, Any]) -> int:
        """Change columns of a row; how many rows that were."""
        key = tuple(changes)
        hot = self._made.get(key)
        if hot is None:
            table, which = self._where()
            unknown = set(key) - set(table.c.keys())
            if unknown:
                raise StoreError(f"{table.name} has no column {', '.join(sorted(unknown))}.")
            values: dict[str, Any] = {name: sa.bindparam(f"v_{name}") for name in key}
            hot = self._made[key] = Hot(sa.update(table).where(which).values(values))
        bound = {f"v_{name}": value for name, value in changes.items()}
        return hot(db, {**bound, "row_id": row_id})
