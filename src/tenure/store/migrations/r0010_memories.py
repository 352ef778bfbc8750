"""Notes that agents of a profile remember, and the full-text index over them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic.operations import Operations


def upgrade(op: Operations) -> None:
    """Add the table and its index."""
    op.create_table(
        "memories",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=True),
        sa.Column("text", sa.Text, nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("by", sa.String(16), nullable=False),
        sa.Column("session_id", sa.String(40), nullable=False),
        sa.Column("created_at", sa.Float, nullable=False),
        sa.Column("decided_at", sa.Float, nullable=False),
        sqlite_autoincrement=True,
    )
    op.execute(
        "CREATE VIRTUAL TABLE memory_search USING fts5(text, content='memories', "
        "content_rowid='id', tokenize='unicode61 remove_diacritics 2')"
    )
