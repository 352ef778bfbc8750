"""Gateways whose profile remembers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tenure.sessions.memories import Memories


def with_memories(gateway: Any) -> Memories:
    """Let the default profile's sessions remember, from those on that are opened later."""
    profiles = gateway.ports.profiles
    base = profiles.base
    made = Memories(base.store, base.clock, base.config)
    profiles.base = replace(base, memories=made)
    return made
