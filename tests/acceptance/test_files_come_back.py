"""A turn deletes and rewrites files; one command brings all of them back, without git."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest

from support.checkpoints import picture
from support.commands import Place
from support.served import kill_quietly, load, serving, wait_for

DAMAGE = (
    "rm -rf lib docs/a.md && printf changed > docs/b.md && chmod 600 bin/tool && mv bin/tool bin/t2 "
    "&& ln -sfn /etc link && mkdir junk && dd if=/dev/zero of=data.bin bs=1k count=9 2>/dev/null"
)


@pytest.fixture
def place(tmp_path) -> Place:
    return Place(tmp_path)


def fill(work: Path) -> None:
    for n in range(40):
        file = work / "lib" / f"p{n % 4}" / f"q{n % 3}" / f"m{n}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(os.urandom(500 + n))
        file.chmod(0o640 if n % 2 else 0o444)
    (work / "docs").mkdir()
    (work / "docs" / "a.md").write_text("a\r\nb")
    (work / "docs" / "b.md").write_text("b\n")
    (work / "bin").mkdir(mode=0o711)
    (work / "bin" / "tool").write_text("#!/bin/sh\n")
    (work / "bin" / "tool").chmod(0o755)
    (work / "data.bin").write_bytes(os.urandom(2_000_000))
    (work / "link").symlink_to("docs/a.md")


def test_one_command_brings_everything_back(place):
    fill(place.work)
    before = picture(place.work)
    ref = place.script(
        {"call": {"name": "shell", "arguments": {"command": DAMAGE}}}, {"text": "Tidied."}
    )
    ran = place.run("run", "--yes", "--model", ref, "tidy up")
    assert ran.code == 0 and not (place.work / "lib").exists(), ran.err
    assert not (place.work / ".git").exists()
    damaged = picture(place.work)

    listed = place.run("checkpoint", "list", "last")
    assert listed.code == 0 and listed.out.split()[0] == "1" and "tidy up" in listed.out
    told = place.run("checkpoint", "diff", "last", "1", "docs")
    assert "deleted   docs/a.md" in told.out and "+changed" in told.out
    back = place.run("checkpoint", "restore", "last")
    assert back.code == 0, back.out + back.err
    made_since = {"junk", "bin/t2"}
    assert {p: w for p, w in picture(place.work).items() if p not in made_since} == before
    assert "left      junk" in back.out and "undoes it" in back.err

    undo = back.err.split("`")[1].split()[1:]
    assert place.run(*undo).code == 0 and picture(place.work) == damaged
    clean = place.run("checkpoint", "restore", "last", "--remove-new")
    assert clean.code == 0 and picture(place.work) == before
    assert place.run("checkpoint", "restore", "last", "feedfeed").code == 2
    assert place.run("sessions", "delete", "last", "--yes").code == 0
    assert not list((place.home / "checkpoints" / "sessions").glob("*/*"))


@pytest.mark.slow
async def test_kill_in_the_middle_of_a_checkpoint_leaves_nothing_after_the_next_start(place):
    place.config("[checkpoints]\nfile_bytes_max = 8000000000\ntotal_bytes_max = 8000000000\n")
    with (place.work / "big").open("wb") as file:
        file.truncate(6_000_000_000)  # takes seconds to save, and no space here
    (place.work / "kept.txt").write_text("kept")
    ref = place.script({"call": {"name": "shell", "arguments": {"command": "rm -f kept.txt"}}})
    kept = place.home / "checkpoints"

    def written() -> int:
        return sum(p.stat().st_size for p in kept.rglob("*") if p.is_file())

    with serving(place) as served:
        async with served.client() as client:
            session = await client.ready_session(auto_approve=True, cwd=str(place.work), model=ref)
            await client.call("prompt.submit", session_id=session, text="go")
            wait_for(lambda: kept.exists() and written() > 20_000_000, "a checkpoint is under way")
            began = time.monotonic()
            await client.call("gateway.info")
            took_s = (time.monotonic() - began) / max(1.0, load())  # where others run, too
            assert took_s < 1.0, "the loop is free meanwhile"
            kill_quietly(served.pid)
            kill_quietly(served.guard_pid)
    assert written() > 0 and (place.work / "kept.txt").exists(), "nothing ran before it was saved"
    (place.work / "big").unlink()
    with serving(place) as served:
        async with served.client() as client:
            await client.call("session.list")
            wait_for(lambda: written() == 0, "the rest is swept")
    shutil.rmtree(kept)
