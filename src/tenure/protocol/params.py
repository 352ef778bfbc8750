"""What the params of methods have in common."""

from __future__ import annotations

import msgspec


class Params(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Base of all params."""


class Empty(Params, kw_only=True):
    """No params."""


class ForSession(Params, kw_only=True):
    """Names a session."""

    session_id: str


class MaybeSession(Params, kw_only=True):
    """May name a session."""

    session_id: str = ""
