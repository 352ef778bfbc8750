"""Bring an older database up to date: copy first, then Alembic. Imported only when needed."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from alembic.migration import MigrationContext
from alembic.operations import Operations
from sqlalchemy.engine import Engine

from tenure.store.migrations import STEPS
from tenure.store.revision import KNOWN, REVISION
from tenure.store.schema import stamp


def backup(engine: Engine, path: Path, backups: Path, found: str) -> Path:
    """A consistent copy through the library; returns its path.

    It gets its name when it is whole. What an earlier start did not finish goes; nobody writes it.
    """
    backups.mkdir(mode=0o700, parents=True, exist_ok=True)
    for unfinished in backups.glob("*.part*"):
        unfinished.unlink()
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S")
    copy = backups / f"{path.stem}-{found}-{stamp}.db"
    part = copy.with_name(f"{copy.name}.part")
    with engine.connect() as db:
        db.exec_driver_sql("VACUUM INTO ?", (str(part),))
    part.chmod(0o600)
    return part.rename(copy)


def migrate(engine: Engine, path: Path, backups: Path, found: str) -> None:
    """Run the steps from `found` to the current revision in one transaction."""
    backup(engine, path, backups, found)
    with engine.connect() as db:
        db.exec_driver_sql("BEGIN IMMEDIATE")
        context = MigrationContext.configure(db, opts={"transactional_ddl": False})
        with Operations.context(context) as op:
            for revision in KNOWN[KNOWN.index(found) + 1 :]:
                STEPS[revision](op)
        stamp(db, REVISION)
        db.exec_driver_sql("COMMIT")
