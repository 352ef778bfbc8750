"""`tenure approvals`: what is allowed without asking, and taking it back."""

from __future__ import annotations

import json
import sys

from tenure.cli.attach import Where
from tenure.cli.holding import holding


async def list_approvals(where: Where, session: str, *, as_json: bool) -> int:
    """What is allowed always, and in a session."""
    async with holding(where, session) as (client, session_id):
        found = await client.call("approval.list", session_id=session_id, profile=where.profile)
    if as_json:
        sys.stdout.write(json.dumps(found["grants"], ensure_ascii=False, indent=1) + "\n")
        return 0
    if not found["grants"]:
        sys.stderr.write("Nothing is allowed beyond the rules in config.toml.\n")
    for grant in found["grants"]:
        allows = ", ".join(grant["allows"])
        sys.stdout.write(f"{grant['id']:<17} {grant['extent']:<8} {allows}\n")
    return 0


async def revoke_approval(where: Where, name: str, session: str) -> int:
    """Take one back."""
    async with holding(where, session) as (client, session_id):
        await client.call("approval.revoke", id=name, session_id=session_id, profile=where.profile)
    sys.stderr.write(f"revoked {name}; it is asked again\n")
    return 0
