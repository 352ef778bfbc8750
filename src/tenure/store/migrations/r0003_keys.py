"""Idempotency keys of prompts."""

from __future__ import annotations

import sqlalchemy as sa
from alembic.operations import Operations


def upgrade(op: Operations) -> None:
    """Add them; earlier prompts came without."""
    op.add_column("turns", sa.Column("key", sa.String(200), nullable=False, server_default=""))
    op.add_column("turns", sa.Column("body", sa.String(64), nullable=False, server_default=""))
    op.create_index(
        "turns_by_key",
        "turns",
        ["session_id", "key"],
        unique=True,
        sqlite_where=sa.text("key != ''"),
    )
