"""Marks of sessions, and the full-text index over what was said; older history is indexed here."""

from __future__ import annotations

import sqlalchemy as sa
from alembic.operations import Operations


def upgrade(op: Operations) -> None:
    """Add the columns, the view and the index, and fill them."""
    for name in ("pinned", "archived"):
        op.add_column("sessions", sa.Column(name, sa.Integer, nullable=False, server_default="0"))
    op.add_column("sessions", sa.Column("tags", sa.Text, nullable=False, server_default=""))
    op.create_table(
        "texts",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column(
            "session_id",
            sa.String(40),
            sa.ForeignKey("sessions.id", ondelete="CASCADE"),
            nullable=False,
        ),
        sa.Column("seq", sa.Integer, nullable=False),
    )
    op.create_index("texts_by_item", "texts", ["session_id", "seq"], unique=True)
    op.execute(
        "CREATE VIEW item_texts AS SELECT t.id AS id, t.session_id AS session_id, t.seq AS seq, "
        "substr(json_extract(CAST(i.message AS TEXT), '$.text'), 1, 16000) AS text "
        "FROM texts t JOIN items i ON i.session_id = t.session_id AND i.seq = t.seq"
    )
    op.execute(
        "CREATE VIRTUAL TABLE search USING fts5(text, content='item_texts', content_rowid='id', "
        "tokenize='unicode61 remove_diacritics 2')"
    )
    op.execute(
        "INSERT INTO texts (session_id, seq) SELECT session_id, seq FROM items "
        "WHERE kind = 'message' AND json_extract(CAST(message AS TEXT), '$.text') <> ''"
    )
    op.execute("INSERT INTO search (rowid, text) SELECT id, text FROM item_texts")
