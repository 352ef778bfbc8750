"""Containers that were made for sessions."""

from __future__ import annotations

import sqlalchemy as sa
from alembic.operations import Operations


def upgrade(op: Operations) -> None:
    """Add their table."""
    op.create_table(
        "containers",
        sa.Column("id", sa.String(40), primary_key=True, nullable=False),
        sa.Column("session_id", sa.String(40), nullable=False),
        sa.Column("instance", sa.String(40), nullable=False),
        sa.Column("created_at", sa.Float, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("ended_at", sa.Float, nullable=False),
    )
