"""System texts are shared while their files stand, and read again when they do not."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from tenure.lifecycle.scope import Scope
from tenure.sessions import system_prompt
from tenure.sessions.system_prompt import KEPT_MAX, PromptFacts, Prompts
from tenure.testing.clock import ManualClock


@pytest.fixture
async def scope():
    made = Scope.root("test", ManualClock())
    yield made
    await made.close()


@pytest.fixture
def builds(monkeypatch):
    """How often a text was built."""
    counted = []
    build = system_prompt.build_prompt

    def count(facts):
        counted.append(facts)
        return build(facts)

    monkeypatch.setattr(system_prompt, "build_prompt", count)
    return counted


def facts(folder, *, small=False, wall_s=1_800_000_000.0, elsewhere=None):
    return PromptFacts(folder, folder.parent, small, wall_s, elsewhere)


async def another_turn():
    await asyncio.sleep(0)


async def test_it_is_read_again_only_when_its_files_change(tmp_path, scope, builds):
    folder = tmp_path / "work"
    folder.mkdir()
    prompts = Prompts()
    first = await prompts.read(scope, facts(folder))
    await another_turn()
    assert await prompts.read(scope, facts(folder)) is first
    (folder / "AGENTS.md").write_text("Be brief.")
    await another_turn()
    second = await prompts.read(scope, facts(folder))
    assert "Be brief." in second.text and second.sources == (str(folder / "AGENTS.md"),)
    (tmp_path / "AGENTS.md").write_text("Be kind.")
    await another_turn()
    third = await prompts.read(scope, facts(folder))
    assert "Be kind." in third.text
    (folder / ".git").mkdir()  # the way up ends here now
    await another_turn()
    assert "Be kind." not in (await prompts.read(scope, facts(folder))).text
    same = os.stat(folder / "AGENTS.md")
    (folder / "AGENTS.md").write_text("Be bold..")
    os.utime(folder / "AGENTS.md", ns=(same.st_atime_ns, same.st_mtime_ns + 1))
    await another_turn()
    assert "Be bold.." in (await prompts.read(scope, facts(folder))).text
    assert len(builds) == 5


async def test_what_else_it_depends_on_makes_another(tmp_path, scope, builds):
    prompts = Prompts()
    for one in (
        facts(tmp_path),
        facts(tmp_path, small=True),
        facts(tmp_path, wall_s=1_900_000_000.0),
        facts(tmp_path, elsewhere=Path("/far")),
        facts(tmp_path, elsewhere=Path("/farther")),
    ):
        await prompts.read(scope, one)
        await another_turn()
        await prompts.read(scope, one)
    assert len(builds) == 5


async def test_a_change_while_it_is_read_is_seen_the_next_time(tmp_path, scope, monkeypatch):
    build = system_prompt.build_prompt

    def slow(wanted):
        made = build(wanted)
        (tmp_path / "AGENTS.md").write_text("Too late.")
        return made

    monkeypatch.setattr(system_prompt, "build_prompt", slow)
    prompts = Prompts()
    assert "Too late." not in (await prompts.read(scope, facts(tmp_path))).text
    await another_turn()
    assert "Too late." in (await prompts.read(scope, facts(tmp_path))).text


async def test_so_many_are_kept(tmp_path, scope, builds):
    prompts = Prompts()
    for n in range(KEPT_MAX + 1):
        folder = tmp_path / str(n)
        folder.mkdir()
        await prompts.read(scope, facts(folder))
    await another_turn()
    await prompts.read(scope, facts(tmp_path / str(KEPT_MAX)))
    assert len(builds) == KEPT_MAX + 1
    await prompts.read(scope, facts(tmp_path / "0"))
    assert len(builds) == KEPT_MAX + 2, "the one that was not used for longest has gone"
