"""Questions of more than one kind, and who may answer them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic.operations import Operations


def upgrade(op: Operations) -> None:
    """Add both; earlier questions were approvals of the owner's."""
    for name, size, before in (("kind", 16, "approval"), ("principal", 80, "owner")):
        column = sa.Column(name, sa.String(size), nullable=False, server_default=before)
        op.add_column("approvals", column)
