"""checkpoint.restore: files come back, outside of git, and never during a turn."""

from __future__ import annotations

import asyncio

import pytest

from support.checkpoints import picture
from tenure.errors import BadValue, NotFound, SessionBusy

DAMAGE = (
    "find src -delete && printf other > notes.txt && chmod 777 run.sh && mkdir made && touch made/x"
)


@pytest.fixture
def steps():
    call = {"call": {"name": "shell", "arguments": {"command": DAMAGE}}}
    return [call, {"text": "Done."}, call, {"text": "Again."}]


def fill(folder):
    deep = folder / "src" / "deep" / "er"
    deep.mkdir(parents=True)
    (deep / "code.py").write_bytes(b"print(1)\n\x00\xff")
    (deep / "tool").write_text("#!/bin/sh\n")
    (deep / "tool").chmod(0o750)
    (folder / "notes.txt").write_text("my notes\n")
    (folder / "run.sh").write_text("#!/bin/sh\n")
    (folder / "run.sh").chmod(0o755)


def seen(folder):
    ours = {"home", "cache", "spill", "grants.json"}
    return {p: what for p, what in picture(folder).items() if p.split("/")[0] not in ours}


async def damaged(rig, folder):
    """A session whose turn has run the command; what the folder held before."""
    fill(folder)
    before = seen(folder)
    session = await rig.session(auto_approve=True)
    done = await rig.turn(session, "tidy up")
    assert done["text"] == "Done." and not (folder / "src").exists()
    return session, before


async def test_one_call_brings_everything_back_and_another_undoes_it(rig, tmp_path):
    session, before = await damaged(rig, tmp_path)
    changed = seen(tmp_path)
    done = await rig.call("checkpoint.restore", session_id=session)
    assert not done["problems"] and sorted(done["left"]) == ["made", "made/x"]
    assert {p: w for p, w in seen(tmp_path).items() if not p.startswith("made")} == before
    told = (await rig.client.until("checkpoint.restored", session)).payload
    assert told["undo"] == done["undo"] and told["restored_count"] == done["restored_count"]
    undone = await rig.call("checkpoint.restore", session_id=session, checkpoint=done["undo"])
    assert seen(tmp_path) == changed and undone["removed_count"] == 5
    await rig.call("checkpoint.restore", session_id=session, remove_new=True)
    assert seen(tmp_path) == before


async def test_the_model_is_told_once(rig, tmp_path):
    session, _ = await damaged(rig, tmp_path)
    await rig.call("checkpoint.restore", session_id=session)
    await rig.turn(session, "what now")
    asked = [[m.text for m in r.messages] for r in rig.gateway.picker.script.requests]
    notes = [text for text in asked[-1] if "restored files in the working directory" in text]
    assert len(notes) == 1 and "before `tidy up`: 7 restored, 0 removed" in notes[0]


async def test_one_path(rig, tmp_path):
    session, before = await damaged(rig, tmp_path)
    await rig.call("checkpoint.restore", session_id=session, path="src/deep/er/tool")
    now = seen(tmp_path)
    assert now["src/deep/er/tool"] == before["src/deep/er/tool"]
    assert "src/deep/er/code.py" not in now and now["notes.txt"][2] == b"other"


async def test_refused_while_a_turn_runs_whoever_runs_it(rig, tmp_path):
    fill(tmp_path)
    session = await rig.session()
    other = await rig.session(cwd=str(tmp_path))
    await rig.call("prompt.submit", session_id=session, text="tidy up")
    await rig.client.until("approval.request", session)
    for asked in (session, other):
        with pytest.raises(SessionBusy, match=f"session busy .*{session}"):
            await rig.call("checkpoint.restore", session_id=asked)
    await rig.call("session.interrupt", session_id=session)
    await rig.client.until("message.complete", session)
    with pytest.raises(NotFound, match="no checkpoint"):  # it changed nothing, so none was taken
        await rig.call("checkpoint.restore", session_id=session)


async def test_a_turn_that_begins_meanwhile_waits_with_its_first_change(rig, tmp_path, monkeypatch):
    import threading

    from tenure.checkpoints.restore import Restorer

    session, before = await damaged(rig, tmp_path)
    inside, go_on = threading.Event(), threading.Event()
    real = Restorer.run

    def held(self, changes):
        inside.set()
        assert go_on.wait(30)
        return real(self, changes)

    monkeypatch.setattr(Restorer, "run", held)
    restoring = asyncio.get_running_loop().create_task(
        rig.call("checkpoint.restore", session_id=session)
    )
    while not inside.is_set():
        await asyncio.sleep(0.001)
    await rig.call("prompt.submit", session_id=session, text="again")
    while rig.client.seen[-1].type != "tool.start":
        await rig.client.until("tool.start", session)
    await asyncio.sleep(0.05)  # a command that did not wait would have run by now
    assert (tmp_path / "notes.txt").read_text() == "other"
    go_on.set()
    assert not (await restoring)["problems"]
    assert (await rig.client.until("message.complete", session)).payload["text"] == "Again."
    listed = await rig.call("checkpoint.list", session_id=session)
    assert [row["kind"] for row in listed["checkpoints"]] == ["turn", "restore", "turn"]
    await rig.call("checkpoint.restore", session_id=session, remove_new=True)
    kept = {p: w for p, w in seen(tmp_path).items() if not p.startswith("made")}
    assert kept == before, "the second turn's checkpoint holds what the restore gave back"


async def test_a_client_that_leaves_does_not_stop_it(rig, tmp_path, monkeypatch):
    import threading

    from tenure.checkpoints.restore import Restorer

    session, before = await damaged(rig, tmp_path)
    inside, go_on = threading.Event(), threading.Event()
    real = Restorer.run

    def held(self, changes):
        inside.set()
        assert go_on.wait(30)
        return real(self, changes)

    monkeypatch.setattr(Restorer, "run", held)
    client, scope = await rig.gateway.client()
    task = asyncio.get_running_loop().create_task(
        client.call("checkpoint.restore", session_id=session)
    )
    while not inside.is_set():
        await asyncio.sleep(0.001)
    task.cancel()
    await scope.close()
    go_on.set()
    async with asyncio.timeout(30):
        while not (tmp_path / "src" / "deep" / "er" / "tool").exists():
            await asyncio.sleep(0.005)
    await rig.call("checkpoint.diff", session_id=session)  # waits until the restore is over
    assert {p: w for p, w in seen(tmp_path).items() if not p.startswith("made")} == before


async def test_guards(rig, tmp_path):
    session, _ = await damaged(rig, tmp_path)
    with pytest.raises(BadValue, match="below the working directory"):
        await rig.call("checkpoint.restore", session_id=session, path="../outside")
    with pytest.raises(NotFound, match="no checkpoint"):
        await rig.call("checkpoint.restore", session_id=session, checkpoint="feedfeed")
    await rig.refuses_strangers("checkpoint.restore")
    await rig.refuses_wrong_types("checkpoint.restore", session_id="x")
