"""Which schema this release writes, readable without importing the database library's toolkit."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from tenure.errors import SchemaTooNew, StoreError

REVISION = "0010"
KNOWN = ("0001", "0002", "0003", "0004", "0005", "0006", "0007", "0008", "0009", "0010")
"""Every revision from the first to the current one, in order."""


def look(database: Path) -> str | None:
    """The revision of the file at `database`, or None where there is none yet.

    Cheap enough for start-up: one read-only connection of the standard library.

    Raises:
        SchemaTooNew: a newer release wrote it.
        StoreError: it is no database of ours, or cannot be read.
    """
    if not database.exists() or database.stat().st_size == 0:
        return None
    try:
        uri = f"{database.absolute().as_uri()}?mode=ro"
        with closing(sqlite3.connect(uri, uri=True, timeout=5.0)) as db:
            if db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0:
                return None  # whoever made it was killed before its first transaction
            row = db.execute("SELECT version_num FROM alembic_version").fetchone()
    except sqlite3.Error as exc:
        raise StoreError(
            f"{database} cannot be read as a database of ours ({exc}); "
            "move it away or restore one of backups/."
        ) from None
    found = str(row[0]) if row else ""
    if found not in KNOWN:
        raise SchemaTooNew(
            f"{database} has schema {found!r}, newer than this release knows ({REVISION}); "
            "upgrade Tenure or restore one of backups/."
        )
    return found
