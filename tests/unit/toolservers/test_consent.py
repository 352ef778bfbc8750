"""What a working directory brings runs only after consent to that very content."""

from __future__ import annotations

import json

import pytest

from support.toolservers import alive, fake, lines, open_rig
from tenure.errors import ConfigError
from tenure.toolservers.trust import Trust


def bring(rig, **servers):
    path = rig.folder / "work" / ".mcp.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({"mcpServers": servers}))
    return path


async def test_nothing_of_it_runs_before(tmp_path):
    async with open_rig(tmp_path) as rig:
        path = bring(rig, theirs=fake(tmp_path / "f"))
        held = rig.session()
        assert held.tools() == () and held.rules() == ()
        row = rig.row("theirs")
        assert row["status"] == "not trusted" and f"tenure mcp trust {path}" in row["reason"]
        assert lines(tmp_path / "f", "starts") == []
        rig.home.trust.give(path)
        await rig.listed()
        assert (await rig.call("mcp__theirs__echo", text="x")).text == "x"


async def test_another_content_is_another_question(tmp_path):
    async with open_rig(tmp_path) as rig:
        path = bring(rig, theirs=fake(tmp_path / "f"))
        rig.session()
        rig.home.trust.give(path)
        await rig.listed()
        assert len(alive(tmp_path / "f")) == 1
        bring(rig, theirs=fake(tmp_path / "f"), more={"command": "true"})
        held = rig.session()
        assert held.tools() == () and {row["status"] for row in held.rows()} == {"not trusted"}
        await rig.close()
        assert alive(tmp_path / "f") == []


async def test_it_gets_no_more_than_commands_have(tmp_path):
    async with open_rig(tmp_path) as rig:
        path = bring(rig, theirs=fake(tmp_path / "f", allow=["*"], network=True))
        rig.session()
        rig.home.trust.give(path)
        held = await rig.listed()
        assert held.rules() == () and not held._places["theirs"].server.network


async def test_the_user_s_own_of_that_name_counts(tmp_path):
    async with open_rig(tmp_path) as rig:
        path = bring(rig, one=fake(tmp_path / "theirs"))
        rig.declare(one=fake(tmp_path / "mine"))
        rig.session()
        rig.home.trust.give(path)
        await rig.listed()
        await rig.call("mcp__one__echo", text="x")
        assert lines(tmp_path / "theirs", "starts") == []


def test_a_damaged_list_of_consents_is_no_consent(tmp_path):
    path = tmp_path / "a.json"
    path.write_text('{"mcpServers": {}}')
    trust = Trust(tmp_path / "trusted.json")
    digest = trust.give(path).digest
    assert trust.allows(path, digest) and not trust.allows(path, "")
    assert (tmp_path / "trusted.json").stat().st_mode & 0o777 == 0o600
    (tmp_path / "trusted.json").write_text("{")
    assert not trust.allows(path, digest)
    with pytest.raises(ConfigError, match="damaged"):
        trust.give(path)
