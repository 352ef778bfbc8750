"""Files that come with prompts: who refers to them, and which wait."""

from __future__ import annotations

import sqlalchemy as sa
from alembic.operations import Operations


def upgrade(op: Operations) -> None:
    """Add their table, and their columns to sessions and turns."""
    op.add_column("sessions", sa.Column("draft", sa.Text, nullable=False, server_default=""))
    op.add_column("turns", sa.Column("files", sa.Text, nullable=False, server_default=""))
    op.create_table(
        "uploads",
        sa.Column(
            "session_id",
            sa.String(40),
            sa.ForeignKey("sessions.id", ondelete="CASCADE"),
            primary_key=True,
            nullable=False,
        ),
        sa.Column("digest", sa.String(64), primary_key=True, nullable=False),
        sa.Column("seq", sa.Integer, primary_key=True, nullable=False, autoincrement=False),
    )
    op.create_index("uploads_by_digest", "uploads", ["digest"])
