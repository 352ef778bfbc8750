"""System texts are shared while their files stand, and read again when they do not."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from tenure.lifecycle.scope import Scope
from tenure.sessions import system_prompt
from tenure.sessions.system_prompt import KEPT_MAX, PromptFacts, Prompts
from tenure.testing.clock import ManualClock, settle
from tenure.testing.gates import ThreadGate


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


async def test_who_wants_it_meanwhile_shares_it_unless_the_first_has_left(
    tmp_path, scope, monkeypatch
):
    build, gates, built = system_prompt.build_prompt, [ThreadGate(), ThreadGate()], []

    def held(wanted):
        built.append(wanted)
        gates[len(built) - 1].park()
        return build(wanted)

    monkeypatch.setattr(system_prompt, "build_prompt", held)
    prompts = Prompts()
    first = asyncio.create_task(prompts.read(scope, facts(tmp_path)))
    await gates[0].wait_parked()
    (reading,) = prompts._reading.values()
    others = [asyncio.create_task(prompts.read(scope, facts(tmp_path))) for _ in range(2)]
    await settle()
    assert list(prompts._reading.values()) == [reading] and not any(o.done() for o in others)
    first.cancel()
    await settle()
    assert first.cancelled()
    (again,) = prompts._reading.values()
    assert again is not reading, "the next one reads"
    for gate in gates:
        gate.release()
    second, third = await asyncio.gather(*others)
    assert second is third and second.text and len(built) == 2
    assert prompts._reading == {}


async def test_files_are_looked_at_once_in_a_turn_of_the_loop(tmp_path, scope, monkeypatch):
    prompts, looked = Prompts(), []
    first = await prompts.read(scope, facts(tmp_path))
    await another_turn()
    look = system_prompt._look
    monkeypatch.setattr(system_prompt, "_look", lambda one: looked.append(one) or look(one))
    for _ in range(3):
        assert await prompts.read(scope, facts(tmp_path)) is first
    assert len(looked) == 1


async def test_files_of_this_machine_do_not_count_elsewhere(tmp_path, scope):
    (tmp_path / "AGENTS.md").write_text("Be brief.")
    there = await Prompts().read(scope, facts(tmp_path, elsewhere=Path("/far")))
    assert "Be brief." not in there.text and "/far" in there.text and there.sources == ()


async def test_what_is_used_stays(tmp_path, scope, builds):
    prompts = Prompts()
    for n in range(KEPT_MAX + 1):
        (tmp_path / str(n)).mkdir()
        if n == KEPT_MAX:
            await prompts.read(scope, facts(tmp_path / "0"))
        await prompts.read(scope, facts(tmp_path / str(n)))
    await prompts.read(scope, facts(tmp_path / "0"))
    assert len(builds) == KEPT_MAX + 1


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
