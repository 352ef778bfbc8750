"""commands.catalog: the slash commands."""

from __future__ import annotations


async def test_every_command_is_in_it(rig):
    catalog = await rig.call("commands.catalog")
    names = [name for name, _ in catalog["pairs"]]
    assert names == [
        "/help",
        "/new",
        "/model",
        "/status",
        "/usage",
        "/context",
        "/title",
        "/stop",
        "/tools",
        "/queue",
        "/attach",
        "/detach",
        "/steer",
        "/agents",
        "/plan",
        "/memory",
        "/skills",
        "/undo",
        "/branch",
        "/compress",
        "/rollback",
        "/quit",
    ]
    assert catalog["categories"][0]["pairs"] == catalog["pairs"]
    assert catalog["sub"]["/agents"] == ["steer", "stop", "pause", "resume"]
    assert set(catalog["sub"]) <= set(names)
    assert set(catalog["canon"]) == set(names)
