"""Notes for the model that wait for the next turn of their session."""

from __future__ import annotations

import sqlalchemy as sa
from alembic.operations import Operations


def upgrade(op: Operations) -> None:
    """Add their table."""
    op.create_table(
        "notes",
        sa.Column("id", sa.String(40), primary_key=True, nullable=False),
        sa.Column(
            "session_id",
            sa.String(40),
            sa.ForeignKey("sessions.id", ondelete="CASCADE"),
            nullable=False,
        ),
        sa.Column("subject", sa.String(80), nullable=False),
        sa.Column("text", sa.Text, nullable=False),
        sa.Column("created_at", sa.Float, nullable=False),
        sa.Column("delivered_at", sa.Float, nullable=False),
    )
    op.create_index(
        "notes_by_session", "notes", ["session_id"], sqlite_where=sa.text("delivered_at = 0")
    )
