"""Markers of interrupted turns, what continues them, and the lease of the home."""

from __future__ import annotations

import sqlalchemy as sa
from alembic.operations import Operations


def upgrade(op: Operations) -> None:
    """Add them."""
    for column in (
        sa.Column("continues", sa.String(40), nullable=False, server_default=""),
        sa.Column("attempts", sa.Integer, nullable=False, server_default="0"),
        sa.Column("marked_at", sa.Float, nullable=False, server_default="0"),
    ):
        op.add_column("turns", column)
    op.create_index("turns_by_mark", "turns", ["marked_at"], sqlite_where=sa.text("marked_at > 0"))
    op.create_table(
        "home",
        sa.Column("key", sa.String(8), primary_key=True, nullable=False),
        sa.Column("holder", sa.Text, nullable=False),
        sa.Column("epoch", sa.Integer, nullable=False),
        sa.Column("taken_at", sa.Float, nullable=False),
        sa.Column("renewed_at", sa.Float, nullable=False),
        sa.Column("expires_at", sa.Float, nullable=False),
    )
