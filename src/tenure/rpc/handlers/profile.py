"""profile.*: the named parts of the home."""

from __future__ import annotations

from tenure.protocol import finding as m
from tenure.protocol.params import Empty
from tenure.rpc.ports import Call


async def profile_list(params: Empty, call: Call) -> m.ProfileRows:
    """The profiles; "current" serves requests that name none, "live" counts its sessions."""
    del params
    gateway = call.gateway
    live = [session.ports.profile for session in gateway.sessions.live()]
    return m.ProfileRows(
        [
            {"name": name, "current": name == gateway.profiles.fallback, "live": live.count(name)}
            for name in gateway.profiles.names()
        ]
    )


async def profile_create(params: m.ProfileName, call: Call) -> m.ProfileRows:
    """Make an empty profile."""
    call.gateway.profiles.create(params.name)
    return await profile_list(Empty(), call)


async def profile_delete(params: m.ProfileName, call: Call) -> m.ProfileRows:
    """Remove a profile that nobody uses."""
    await call.gateway.profiles.delete(params.name)
    return await profile_list(Empty(), call)
