"""The tables, once, for every database (SQLAlchemy Core).

A fresh database is made from this metadata and stamped with `REVISION`; an older one is migrated
by Alembic (`migrations/`). tests/unit/store/test_migrations.py proves both ways equal.
"""

from __future__ import annotations

from sqlalchemy import (
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    event,
    text,
)
from sqlalchemy.engine import Connection

from tenure.store.revision import REVISION

__all__ = [
    "REVISION",
    "approvals",
    "ends",
    "events",
    "home",
    "items",
    "leases",
    "memories",
    "metadata",
    "notes",
    "sessions",
    "stamp",
    "turns",
    "uploads",
]

metadata = MetaData()

sessions = Table(
    "sessions",
    metadata,
    Column("id", String(40), primary_key=True),
    Column("title", Text, nullable=False),
    Column("cwd", Text, nullable=False),
    Column("model", Text, nullable=False),
    Column("source", String(40), nullable=False),
    Column("status", String(16), nullable=False),
    Column("reason", Text, nullable=False),
    Column("created_at", Float, nullable=False),
    Column("updated_at", Float, nullable=False),
    Column("preview", Text, nullable=False),
    Column("message_count", Integer, nullable=False),
    Column("settings", LargeBinary, nullable=False),
    Column("pinned", Integer, nullable=False, server_default="0"),
    Column("archived", Integer, nullable=False, server_default="0"),
    Column("tags", Text, nullable=False, server_default=""),
    Column("draft", Text, nullable=False, server_default=""),
    Index("sessions_by_use", "updated_at"),
    Index("sessions_by_status", "status"),
)

turns = Table(
    "turns",
    metadata,
    Column("id", String(40), primary_key=True),
    Column("session_id", String(40), ForeignKey("sessions.id", ondelete="CASCADE"), nullable=False),
    Column("ordinal", Integer, nullable=False),
    Column("state", String(16), nullable=False),
    Column("cause", String(40), nullable=False),
    Column("error", Text, nullable=False),
    Column("prompt", Text, nullable=False),
    Column("created_at", Float, nullable=False),
    Column("started_at", Float, nullable=False),
    Column("ended_at", Float, nullable=False),
    Column("usage", LargeBinary, nullable=False),
    Column("continues", String(40), nullable=False, server_default=""),
    Column("attempts", Integer, nullable=False, server_default="0"),
    Column("marked_at", Float, nullable=False, server_default="0"),
    Column("key", String(200), nullable=False, server_default=""),
    Column("body", String(64), nullable=False, server_default=""),
    Column("files", Text, nullable=False, server_default=""),
    Index("turns_by_session", "session_id", "ordinal"),
    Index("turns_by_state", "state"),
    Index("turns_by_mark", "marked_at", sqlite_where=text("marked_at > 0")),
    Index("turns_by_key", "session_id", "key", unique=True, sqlite_where=text("key != ''")),
)

items = Table(
    "items",
    metadata,
    Column(
        "session_id",
        String(40),
        ForeignKey("sessions.id", ondelete="CASCADE"),
        primary_key=True,
    ),
    Column("seq", Integer, primary_key=True, autoincrement=False),
    Column("turn_id", String(40), nullable=False),
    Column("kind", String(16), nullable=False),
    Column("message", LargeBinary, nullable=False),
    Column("replaces", Integer, nullable=False),
)

events = Table(
    "events",
    metadata,
    Column(
        "session_id",
        String(40),
        ForeignKey("sessions.id", ondelete="CASCADE"),
        primary_key=True,
    ),
    Column("epoch", Integer, primary_key=True, autoincrement=False),
    Column("seq", Integer, primary_key=True, autoincrement=False),
    Column("type", String(40), nullable=False),
    Column("payload", LargeBinary, nullable=False),
    Column("at", Float, nullable=False),
)

leases = Table(
    "leases",
    metadata,
    Column("key", String(80), primary_key=True),
    Column("holder", String(80), nullable=False),
    Column("epoch", Integer, nullable=False),
    Column("taken_at", Float, nullable=False),
)

home = Table(
    "home",
    metadata,
    Column("key", String(8), primary_key=True),
    Column("holder", Text, nullable=False),
    Column("epoch", Integer, nullable=False),
    Column("taken_at", Float, nullable=False),
    Column("renewed_at", Float, nullable=False),
    Column("expires_at", Float, nullable=False),
)
"""One row: who holds the home."""

approvals = Table(
    "approvals",
    metadata,
    Column("id", String(40), primary_key=True),
    Column("session_id", String(40), ForeignKey("sessions.id", ondelete="CASCADE"), nullable=False),
    Column("turn_id", String(40), nullable=False),
    Column("question", LargeBinary, nullable=False),
    Column("created_at", Float, nullable=False),
    Column("decision", String(40), nullable=False),
    Column("decided_at", Float, nullable=False),
    Column("kind", String(16), nullable=False, server_default="approval"),
    Column("principal", String(80), nullable=False, server_default="owner"),
    Index("approvals_by_session", "session_id", "decision"),
)


notes = Table(
    "notes",
    metadata,
    Column("id", String(40), primary_key=True),
    Column("session_id", String(40), ForeignKey("sessions.id", ondelete="CASCADE"), nullable=False),
    Column("subject", String(80), nullable=False),
    Column("text", Text, nullable=False),
    Column("created_at", Float, nullable=False),
    Column("delivered_at", Float, nullable=False),
    Index("notes_by_session", "session_id", sqlite_where=text("delivered_at = 0")),
)
"""What the model of a session is to be told with its next turn."""

ends = Table(
    "ends",
    metadata,
    Column(
        "session_id",
        String(40),
        ForeignKey("sessions.id", ondelete="CASCADE"),
        primary_key=True,
    ),
    Column("epoch", Integer, primary_key=True, autoincrement=False),
    Column("reason", Text, nullable=False),
    Column("at", Float, nullable=False),
    Column("started_at", Float, nullable=False),
)
"""Ends of sessions whose hook has not finished."""

containers = Table(
    "containers",
    metadata,
    Column("id", String(40), primary_key=True),
    Column("session_id", String(40), nullable=False),
    Column("instance", String(40), nullable=False),
    Column("created_at", Float, nullable=False),
    Column("reason", Text, nullable=False),
    Column("ended_at", Float, nullable=False),
)
"""Containers made for sessions. They outlive the rows of those: something may be left to end."""

uploads = Table(
    "uploads",
    metadata,
    Column(
        "session_id",
        String(40),
        ForeignKey("sessions.id", ondelete="CASCADE"),
        primary_key=True,
    ),
    Column("digest", String(64), primary_key=True),
    Column("seq", Integer, primary_key=True, autoincrement=False),
    Index("uploads_by_digest", "digest"),
)
"""Who refers to a content that came with a prompt: an entry of history; ``seq`` 0: a prompt that
waits, or the session's draft of one."""

memories = Table(
    "memories",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=True),
    Column("text", Text, nullable=False),
    Column("state", String(16), nullable=False),
    Column("by", String(16), nullable=False),
    Column("session_id", String(40), nullable=False),
    Column("created_at", Float, nullable=False),
    Column("decided_at", Float, nullable=False),
    sqlite_autoincrement=True,
)
"""What agents of the profile remember. A note outlives the session that it came from."""

texts = Table(
    "texts",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("session_id", String(40), ForeignKey("sessions.id", ondelete="CASCADE"), nullable=False),
    Column("seq", Integer, nullable=False),
    Index("texts_by_item", "session_id", "seq", unique=True),
)

ITEM_TEXTS = """\
CREATE VIEW item_texts AS SELECT t.id AS id, t.session_id AS session_id, t.seq AS seq,
  substr(json_extract(CAST(i.message AS TEXT), '$.text'), 1, 16000) AS text
FROM texts t JOIN items i ON i.session_id = t.session_id AND i.seq = t.seq"""
"""What can be found of each entry: its first 16,000 characters."""
SEARCH = """\
CREATE VIRTUAL TABLE search USING fts5(text, content='item_texts', content_rowid='id',
  tokenize='unicode61 remove_diacritics 2')"""
"""The index over that; see `store/finding.py`. Another database has another one."""
MEMORY_SEARCH = """\
CREATE VIRTUAL TABLE memory_search USING fts5(text, content='memories', content_rowid='id',
  tokenize='unicode61 remove_diacritics 2')"""
"""The index over what is remembered; see `store/memory_statements.py`."""


@event.listens_for(metadata, "after_create")
def _create_search(_metadata: MetaData, db: Connection, **_: object) -> None:
    if db.dialect.name == "sqlite":
        db.exec_driver_sql(ITEM_TEXTS)
        db.exec_driver_sql(SEARCH)
        db.exec_driver_sql(MEMORY_SEARCH)


def stamp(db: Connection, revision: str) -> None:
    """Write the revision where the migration tool looks for it."""
    db.exec_driver_sql(
        "CREATE TABLE IF NOT EXISTS alembic_version (version_num VARCHAR(32) NOT NULL, "
        "CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num))"
    )
    db.exec_driver_sql("DELETE FROM alembic_version")
    db.exec_driver_sql("INSERT INTO alembic_version VALUES (?)", (revision,))
