"""Ends of sessions whose hook has not finished."""

from __future__ import annotations

import sqlalchemy as sa
from alembic.operations import Operations


def upgrade(op: Operations) -> None:
    """Add their table."""
    op.create_table(
        "ends",
        sa.Column(
            "session_id",
            sa.String(40),
            sa.ForeignKey("sessions.id", ondelete="CASCADE"),
            primary_key=True,
            nullable=False,
        ),
        sa.Column("epoch", sa.Integer, primary_key=True, nullable=False, autoincrement=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("at", sa.Float, nullable=False),
        sa.Column("started_at", sa.Float, nullable=False),
    )
