"""profile.*: the named parts of the home; config.reload: what their files say."""

from __future__ import annotations

from tenure.errors import ConfigError
from tenure.protocol import finding as m
from tenure.protocol.params import Empty
from tenure.reload import Reload
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


async def config_reload(params: m.ConfigReload, call: Call) -> m.ConfigReloaded:
    """Read the files of a profile now; running turns end as they began."""
    async with call.gateway.profiles.using_ports(params.profile) as ports:
        found = ports.live.look(anyway=True) if ports.live else None
        if ports.live and ports.live.error:
            raise ConfigError(ports.live.error)
    found = found or Reload()
    return m.ConfigReloaded(changed=found.changed, waiting=found.waiting, text=found.text)
