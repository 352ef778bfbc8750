"""The first schema, frozen: later changes are steps of their own."""

from __future__ import annotations

import sqlalchemy as sa
from alembic.operations import Operations


def _session_ref(*, key: bool = False) -> sa.Column[str]:
    return sa.Column(
        "session_id",
        sa.String(40),
        sa.ForeignKey("sessions.id", ondelete="CASCADE"),
        nullable=False,
        primary_key=key,
    )


def _text(name: str) -> sa.Column[str]:
    return sa.Column(name, sa.Text, nullable=False)


def _string(name: str, length: int, *, key: bool = False) -> sa.Column[str]:
    return sa.Column(name, sa.String(length), nullable=False, primary_key=key)


def _float(name: str) -> sa.Column[float]:
    return sa.Column(name, sa.Float, nullable=False)


def _bytes(name: str) -> sa.Column[bytes]:
    return sa.Column(name, sa.LargeBinary, nullable=False)


def _integer(name: str, *, key: bool = False) -> sa.Column[int]:
    if key:
        return sa.Column(name, sa.Integer, primary_key=True, autoincrement=False)
    return sa.Column(name, sa.Integer, nullable=False)


def upgrade(op: Operations) -> None:
    """Make everything."""
    op.create_table(
        "sessions",
        _string("id", 40, key=True), _text("title"), _text("cwd"), _text("model"),
        _string("source", 40), _string("status", 16), _text("reason"), _float("created_at"),
        _float("updated_at"), _text("preview"), _integer("message_count"), _bytes("settings"),
    )  # fmt: skip
    op.create_index("sessions_by_use", "sessions", ["updated_at"])
    op.create_index("sessions_by_status", "sessions", ["status"])
    op.create_table(
        "turns",
        _string("id", 40, key=True), _session_ref(), _integer("ordinal"),
        _string("state", 16), _string("cause", 40), _text("error"), _text("prompt"),
        _float("created_at"), _float("started_at"), _float("ended_at"), _bytes("usage"),
    )  # fmt: skip
    op.create_index("turns_by_session", "turns", ["session_id", "ordinal"])
    op.create_index("turns_by_state", "turns", ["state"])
    op.create_table(
        "items",
        _session_ref(key=True), _integer("seq", key=True), _string("turn_id", 40),
        _string("kind", 16), _bytes("message"), _integer("replaces"),
    )  # fmt: skip
    op.create_table(
        "events",
        _session_ref(key=True), _integer("epoch", key=True), _integer("seq", key=True),
        _string("type", 40), _bytes("payload"), _float("at"),
    )  # fmt: skip
    op.create_table(
        "leases",
        _string("key", 80, key=True), _string("holder", 80), _integer("epoch"),
        _float("taken_at"),
    )  # fmt: skip
    op.create_table(
        "approvals",
        _string("id", 40, key=True), _session_ref(), _string("turn_id", 40),
        _bytes("question"), _float("created_at"), _string("decision", 40), _float("decided_at"),
    )  # fmt: skip
    op.create_index("approvals_by_session", "approvals", ["session_id", "decision"])
