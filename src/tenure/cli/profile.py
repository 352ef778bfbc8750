"""`tenure profile`: list, create, use, delete."""

from __future__ import annotations

import json
import sys

from tenure.cli.attach import Where, attach
from tenure.cli.sure import is_sure
from tenure.config import DEFAULT_PROFILE
from tenure.errors import BadValue, Conflict
from tenure.home import check_profile, used_profile, write_private


async def list_profiles(where: Where, *, as_json: bool) -> int:
    """The profiles of the gateway; the one that commands use is marked."""
    async with attach(where) as attached:
        found = (await attached.client.call("profile.list"))["profiles"]
    used = "" if where.connect else used_profile(where.home)
    rows = [{**row, "used": row["name"] == used} for row in found]
    if as_json:
        sys.stdout.write(json.dumps(rows, indent=1) + "\n")
        return 0
    for row in rows:
        live = f"  {row['live']} live" if row["live"] else ""
        sys.stdout.write(f"{'*' if row['used'] else ' '} {row['name']}{live}\n")
    return 0


async def create_profile(where: Where, name: str) -> int:
    """Make an empty profile."""
    async with attach(where) as attached:
        await attached.client.call("profile.create", name=name)
    sys.stderr.write(
        f"Made the profile {name}; `--profile {name}` uses it once, "
        f"`tenure profile use {name}` from now on.\n"
    )
    return 0


def use_profile(where: Where, name: str) -> int:
    """Let commands use a profile unless they say otherwise."""
    home = where.home
    check_profile(home, name)
    home.prepare()
    if name == DEFAULT_PROFILE:
        home.used_profile.unlink(missing_ok=True)
    else:
        write_private(home.used_profile, name.encode() + b"\n")
    sys.stderr.write(f"Commands use the profile {name} from now on.\n")
    return 0


async def delete_profile(where: Where, name: str, *, yes: bool) -> int:
    """Remove a profile with everything in it."""
    if not where.connect and name == used_profile(where.home) != DEFAULT_PROFILE:
        raise Conflict(
            f"The profile {name} is the one in use; use another one first "
            "(`tenure profile use default`)."
        )
    if name == DEFAULT_PROFILE:
        raise BadValue("The default profile is the home itself and cannot be deleted.")
    if not where.connect:
        check_profile(where.home, name)
    if not is_sure(f"Delete the profile {name} with its sessions and keys for good?", yes=yes):
        return 1
    async with attach(where) as attached:
        await attached.client.call("profile.delete", name=name)
    sys.stderr.write(f"deleted the profile {name}\n")
    return 0
