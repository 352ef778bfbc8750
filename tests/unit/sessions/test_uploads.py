"""Files of prompts from the draft to the end of the last history that refers to them."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from support.pictures import b64, png
from support.restarts import Restarts
from support.rpc import Rig
from tenure.conversation import Upload
from tenure.errors import (
    BadValue,
    ConfigError,
    Overloaded,
    SessionClosing,
    StoreError,
    StoreFull,
)
from tenure.models.script import Script
from tenure.sessions.closing import UNLOAD, UNLOADED
from tenure.sessions.sources import Offered
from tenure.sessions.upkeep import Upkeep
from tenure.sessions.uploaded import AT_ONCE
from tenure.sessions.uploads import _copy, give_back, take
from tenure.store.base import DropItems, HoldUploads
from tenure.testing.clock import settle
from tenure.testing.gates import Gate, ThreadGate
from tenure.testing.gateway import open_test_gateway
from tenure.testing.store import MemoryStore
from tenure.testing.waiting import until


def blobs(folder) -> list[str]:
    """The digests that are kept."""
    found = (folder / "home" / "uploads" / "blobs").glob("*/*")
    return sorted(path.parent.name + path.name for path in found)


@pytest.fixture
async def rig(tmp_path):
    script = Script([
        [{"gate": "go"}, {"text": "One."}], {"text": "Two."}, {"text": "Three."}, {"text": "Four."},
    ])  # fmt: skip
    async with open_test_gateway(tmp_path, script) as gateway:
        client, _ = await gateway.client()
        yield Rig(gateway, client)


async def attach(rig, session, content=None, name="a.png"):
    content = content or png()
    return await rig.call("file.attach", session_id=session, data_url=b64(content), name=name)


def script_of(rig) -> Script:
    return rig.gateway.picker.script


async def test_a_prompt_that_waits_has_its_files_and_gives_them_back(rig, tmp_path):
    session = await rig.session()
    await rig.call("prompt.submit", session_id=session, text="first")
    await attach(rig, session)
    await rig.call("prompt.submit", session_id=session, text="second")
    (row,) = (await rig.call("prompt.queue.list", session_id=session))["entries"]
    assert row["files"] == ["a.png (image, 40 x 30 pixels)"]
    await rig.call("prompt.queue.remove", session_id=session, turn_id=row["turn_id"])
    rows = (await rig.call("prompt.files.list", session_id=session))["entries"]
    assert [row["name"] for row in rows] == ["a.png"]
    await rig.call("prompt.submit", session_id=session, text="third")
    script_of(rig).gate("go").open()
    while (await rig.client.until("message.complete", session)).payload["text"] != "Two.":
        pass
    *_, asked = script_of(rig).requests[-1].messages
    assert asked.text.startswith("third") and [f.name for f in asked.files] == ["a.png"]
    (digest,) = blobs(tmp_path)
    assert await rig.gateway.store.uploads(session) == {digest: (3,)}  # its entry, and nothing else


async def test_what_is_steered_takes_its_files_along(rig):
    session = await rig.session()
    await rig.call("prompt.submit", session_id=session, text="first")
    await attach(rig, session)
    said = await rig.call("session.steer", session_id=session, text="look at this, too")
    assert said["how"] == "steered"
    script_of(rig).gate("go").open()
    await rig.client.until("message.complete", session)
    *_, asked = script_of(rig).requests[-1].messages
    assert [f.name for f in asked.files] == ["a.png"]
    await settle()
    assert all(0 not in seqs for seqs in (await rig.gateway.store.uploads(session)).values())


async def test_a_prompt_that_is_never_run_lets_go_of_its_files(rig):
    session = await rig.session()
    await rig.call("prompt.submit", session_id=session, text="first")
    await attach(rig, session)
    await rig.call("prompt.submit", session_id=session, text="second")
    assert [*(await rig.gateway.store.uploads(session)).values()] == [(0,)]
    await rig.call("session.close", session_id=session)
    await rig.gateway.sessions.wait_stored()
    states = [turn.state for turn in await rig.gateway.store.turns(session)]
    assert states == ["interrupted", "refused"]
    assert await rig.gateway.store.uploads(session) == {}


async def test_what_another_prompt_has_too_is_kept_for_it(rig):
    session = await rig.session()
    await rig.call("prompt.submit", session_id=session, text="first")
    await attach(rig, session)
    await rig.call("prompt.submit", session_id=session, text="second")
    again = await attach(rig, session, name="same.png")
    await rig.call("prompt.files.remove", session_id=session, id=again["id"])
    assert [*(await rig.gateway.store.uploads(session)).values()] == [(0,)]


async def test_what_came_from_elsewhere_has_a_private_copy_that_goes_with_it(rig, tmp_path):
    session = await rig.session()
    sent = await attach(rig, session)
    copy = Path(sent["path"])
    assert copy.read_bytes() == png() and copy.stat().st_mode & 0o777 == 0o600
    for folder in (copy.parent, copy.parent.parent, tmp_path / "spill"):
        assert folder.stat().st_mode & 0o777 == 0o700
    own = tmp_path / "own.txt"
    own.write_text("mine")
    named = await rig.call("file.attach", session_id=session, path="own.txt")
    for one in (sent, named):
        await rig.call("prompt.files.remove", session_id=session, id=one["id"])
    await until(lambda: not copy.exists())
    assert own.read_text() == "mine"


def copies(folder, session) -> list[Path]:
    return [*(folder / "spill" / session / "files").glob("*")]


async def test_what_is_refused_leaves_no_copy(rig, tmp_path, monkeypatch):
    session = await rig.session()
    rig.gateway.store.fail(StoreError("no"))
    with pytest.raises(StoreError):
        await attach(rig, session)
    with monkeypatch.context() as patched, pytest.raises(StoreFull):
        patched.setattr("tenure.checkpoints.blobs.FREE_BYTES_MIN", 2**62)
        await attach(rig, session)
    await until(lambda: not copies(tmp_path, session))
    sent = await attach(rig, session)
    rig.gateway.store.fail(StoreError("no"))
    with pytest.raises(StoreError):
        await rig.call("prompt.files.remove", session_id=session, id=sent["id"])
    await until(lambda: not any("copy of" in one for one in rig.gateway.census()))
    assert copies(tmp_path, session) == [Path(sent["path"])], "after a new start it waits again"


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("goes", [False, True])
async def test_whoever_leaves_keeps_the_copy_of_what_is_stored_alone(rig, tmp_path, goes, fails):
    gateway, store = rig.gateway, rig.gateway.store
    session = await rig.session()
    leaving, end = await gateway.client()
    first = await attach(rig, session, b"first", "a.txt")
    store._gate = disk = Gate()
    if fails:
        store.fail(StoreError("no"))
    theirs = Rig(gateway, leaving)
    if goes:
        doing = theirs.call("prompt.files.remove", session_id=session, id=first["id"])
    else:
        doing = attach(theirs, session, b"second", "b.txt")
    task = gateway.root.spawn(doing, name="doing").value
    await disk.wait_parked()
    task.cancel()
    await end.close()
    gateway.sessions.ports.clock.advance(10.0)  # the disk is slow
    assert [one for one in gateway.root.census() if "copy of" in one.kind and one.state != "leaked"]
    disk.release()
    await until(lambda: not any("copy of" in one for one in gateway.census()))
    left = {path.read_bytes() for path in copies(tmp_path, session)}
    both = {b"first", b"second"}
    assert left == ({b"first"} if fails else both if not goes else set())


def an_upload() -> Upload:
    return Upload(
        id="file_123456", digest="d", kind="text", type="text/plain", name="a.txt", size=1
    )


def test_a_copy_is_written_over_nothing_and_through_no_link(tmp_path):
    folder, others = tmp_path / "files", tmp_path / "others"
    folder.mkdir()
    others.write_text("theirs")
    (folder / "123456-a.txt").symlink_to(others)
    assert _copy(folder, an_upload(), b"x") == ""
    assert others.read_text() == "theirs"


def test_where_the_disk_refuses_there_is_no_copy(tmp_path):
    (tmp_path / "files").write_text("in the way")
    assert _copy(tmp_path / "files", an_upload(), b"x") == ""


async def test_an_empty_file_is_none(rig, tmp_path):
    session = await rig.session()
    (tmp_path / "empty.txt").touch()
    with pytest.raises(BadValue, match=r"empty\.txt is empty"):
        await rig.call("file.attach", session_id=session, path="empty.txt")


async def test_undo_and_other_words(rig, tmp_path):
    script_of(rig).gate("go").open()
    session = await rig.session()
    await attach(rig, session)
    first = await rig.turn(session, "what is it")
    await attach(rig, session, b"some text", "b.txt")
    again = {"session_id": session, "turn_id": first["turn_id"], "text": "what is that"}
    await rig.call("prompt.edit", **again)
    await rig.client.until("message.complete", session)
    (asked,) = script_of(rig).requests[-1].messages
    assert asked.text.startswith("what is that") and "some text" in asked.text
    assert [f.name for f in asked.files] == ["a.png"], "other words, the same image"
    writes = rig.gateway.store.writes
    (taken,) = [ops for ops in writes if any(isinstance(op, DropItems) for op in ops)]
    (held,) = [op for op in taken if isinstance(op, HoldUploads)]
    assert set(held.digests) == set(await rig.gateway.store.uploads()), "until it has begun"
    await rig.call("session.undo", session_id=session)
    assert await rig.gateway.store.uploads() == {}
    assert len(blobs(tmp_path)) == 2
    live = rig.live(session)
    await live.ports.uploads.sweep(live.ports.store, live.scope)
    assert blobs(tmp_path) == []


async def test_a_branch_keeps_what_its_parent_had(rig, tmp_path):
    script_of(rig).gate("go").open()
    session = await rig.session()
    await attach(rig, session)
    await rig.turn(session, "what is it")
    branch = (await rig.call("session.branch", session_id=session))["session_id"]
    await rig.call("session.delete", session_id=session)
    assert len(blobs(tmp_path)) == 1
    await rig.turn(branch, "and now")
    assert [f.name for f in script_of(rig).requests[-1].messages[0].files] == ["a.png"]
    assert len(script_of(rig).requests[-1].media) == 1
    await rig.call("session.delete", session_id=branch)
    assert blobs(tmp_path) == []


async def test_a_draft_ends_with_its_session_alone(rig, tmp_path):
    session, other = await rig.session(), await rig.session()
    await attach(rig, session)
    await attach(rig, other)
    assert len(blobs(tmp_path)) == 1, "the same content, once"
    await rig.call("session.close", session_id=session)
    assert (await rig.gateway.store.session(session)).draft == ()
    assert len(await rig.gateway.store.uploads()) == 1
    await rig.call("session.delete", session_id=other)
    assert blobs(tmp_path) == [] and await rig.gateway.store.uploads() == {}


async def test_what_could_not_be_stored_is_where_it_was(rig):
    session = await rig.session()
    live = rig.live(session)
    rig.gateway.store.fail(StoreError("no"))
    with pytest.raises(StoreError):
        await attach(rig, session)
    assert live.draft == ()
    await attach(rig, session)
    rig.gateway.store.fail(StoreError("no"))
    with pytest.raises(StoreError):
        await rig.call("prompt.submit", session_id=session, text="go")
    assert [f.name for f in live.draft] == ["a.png"], "the prompt is refused, its file waits"


async def test_the_last_of_the_disk_is_left(rig, tmp_path, monkeypatch):
    session = await rig.session()
    monkeypatch.setattr("tenure.checkpoints.blobs.FREE_BYTES_MIN", 2**62)
    with pytest.raises(StoreFull, match="it is kept from taking the last"):
        await attach(rig, session)
    assert rig.live(session).draft == () and blobs(tmp_path) == []


async def test_a_content_that_is_gone_is_said_and_stops_nothing(rig, tmp_path):
    script_of(rig).gate("go").open()
    session = await rig.session()
    await attach(rig, session)
    await attach(rig, session, b"words", "b.txt")
    for digest in blobs(tmp_path):
        (tmp_path / "home" / "uploads" / "blobs" / digest[:2] / digest[2:]).unlink()
    end = await rig.turn(session, "what is it")
    assert end["state"] == "completed"
    (asked,) = script_of(rig).requests[-1].messages
    assert not asked.files and "b.txt" in asked.text and "its content is gone" in asked.text


async def test_a_summary_has_a_line_instead_of_the_image(rig):
    script_of(rig).gate("go").open()
    session = await rig.session()
    await attach(rig, session)
    for text in ("what is it " + "x " * 900, "more " + "y " * 900, "even more"):
        await rig.turn(session, text)
    await rig.call("session.compress", session_id=session)
    told = script_of(rig).requests[-1].messages[0]
    assert "with a.png (image, 40 x 30 pixels)" in told.text and not told.files
    assert not script_of(rig).requests[-1].media
    await rig.turn(session, "go on")
    assert not any(m.files for m in script_of(rig).requests[-1].messages)


@pytest.fixture
def restarts(tmp_path):
    return Restarts(tmp_path)


async def test_all_of_it_survives_a_restart(restarts, tmp_path):
    steps = [{"text": "One."}, [{"gate": "never"}], {"text": "Three."}]
    async with restarts.boot(Script(steps)) as gateway:
        client, _ = await gateway.client()
        rig = Rig(gateway, client)
        session = await rig.session()
        await attach(rig, session, name="history.png")
        await rig.turn(session, "look")
        await rig.call("prompt.submit", session_id=session, text="stays")
        await attach(rig, session, name="queued.png")
        await rig.call("prompt.submit", session_id=session, text="waits")
        await attach(rig, session, name="draft.png")
    async with restarts.boot(Script([{"text": "A."}, {"text": "B."}, {"text": "C."}])) as gateway:
        client, _ = await gateway.client()
        opened = await client.call("session.resume", session_id=session)
        assert opened["info"]["draft"] == ["draft.png (image, 40 x 30 pixels)"]
        while gateway.sessions.get(session).working:  # what was cut off goes on, then what waited
            await settle()
        messages = gateway.picker.script.requests[-1].messages
        names = [f.name for message in messages for f in message.files]
        assert names == ["history.png", "queued.png"]
        assert len(gateway.picker.script.requests[-1].media) == 1  # one content, kept once
        await client.call("prompt.submit", session_id=session, text="now this")
        while gateway.sessions.get(session).working:
            await settle()
        *_, last = gateway.picker.script.requests[-1].messages
        assert [f.name for f in last.files] == ["draft.png"]


async def test_upkeep_removes_what_nobody_refers_to_any_more(rig, tmp_path):
    session = await rig.session()
    await attach(rig, session)
    live = rig.live(session)
    live.ports.uploads.keep([b"left by a kill between two writes"])
    home = rig.gateway.sessions.profiles.home
    upkeep = Upkeep(live.scope, home, live.ports)
    assert (await upkeep.once()).uploads == 1
    assert blobs(tmp_path) == list(await rig.gateway.store.uploads())


async def test_so_many_are_read_at_one_time(rig, tmp_path, monkeypatch):
    session = await rig.session()
    (tmp_path / "a.txt").write_text("x")
    gate, inside = asyncio.Event(), []

    async def parked(*_args, **_more):
        inside.append(1)
        await gate.wait()
        return Offered("a.txt", b"x")

    monkeypatch.setattr("tenure.rpc.handlers.uploads.from_path", parked)
    for _ in range(AT_ONCE + 3):
        call = rig.call("file.attach", session_id=session, path="a.txt")
        rig.gateway.root.spawn(call, name="attach")
    await until(lambda: len(inside) >= AT_ONCE)
    await settle(50)
    assert len(inside) == AT_ONCE
    gate.set()
    while len(rig.live(session).draft) < AT_ONCE + 3:
        await settle()


async def test_nothing_is_removed_that_is_just_about_to_be_referred_to(tmp_path):
    store = MemoryStore()
    async with open_test_gateway(tmp_path, Script([]), store=store) as gateway:
        client, _ = await gateway.client()
        rig = Rig(gateway, client)
        session = await rig.session()
        live = rig.live(session)
        store._gate = gate = Gate()
        attaching = gateway.root.spawn(attach(rig, session), name="attach").value
        while not blobs(tmp_path):
            await settle()
        kept, looked, look = live.ports.uploads, [], store.uploads

        async def uploads(session_id=""):
            looked.append(session_id)
            return await look(session_id)

        store.uploads = uploads
        sweep = kept.sweep(store, live.scope)
        sweeping = gateway.root.spawn(sweep, name="sweep").value
        while not (kept.turn._waiters or looked):
            await settle()
        early = list(looked)
        gate.release()
        while not (attaching.done() and sweeping.done()):
            await settle()
        assert not early, "it waits until what is kept is referred to"
        assert len(blobs(tmp_path)) == 1 == len(live.draft)


async def test_two_at_once_cannot_both_have_the_last_place(rig, monkeypatch):
    monkeypatch.setattr("tenure.sessions.uploads.DRAFT_MAX", 1)
    session = await rig.session()
    refused = []

    async def one(name):
        try:
            await attach(rig, session, b"text", name)
        except Overloaded as exc:
            refused.append(exc)

    tasks = [rig.gateway.root.spawn(one(name), name="attach").value for name in "ab"]
    while not all(task.done() for task in tasks):
        await settle()
    assert len(refused) == 1 and len(rig.live(session).draft) == 1


async def test_whoever_leaves_stops_nothing_that_was_begun_to_be_stored(tmp_path):
    store = MemoryStore()
    async with open_test_gateway(tmp_path, Script([]), store=store) as gateway:
        client, _ = await gateway.client()
        session = await client.ready_session()
        leaving, end = await gateway.client()
        rig = Rig(gateway, leaving)
        store._gate = gate = Gate()
        attaching = gateway.root.spawn(attach(rig, session), name="attach").value
        await gate.wait_parked()
        attaching.cancel()
        await end.close()
        gate.release()
        await settle()
        (upload,) = gateway.sessions.get(session).draft
        assert (await store.session(session)).draft == (upload,)


async def test_a_session_that_is_being_closed_takes_nothing_in(rig, monkeypatch):
    session = await rig.session()
    live = rig.live(session)
    gate, keep = ThreadGate(), live.ports.uploads.keep

    def slowly(contents):
        gate.park()
        keep(contents)

    monkeypatch.setattr(live.ports.uploads, "keep", slowly)
    attaching = rig.gateway.root.spawn(attach(rig, session), name="attach").value
    await gate.wait_parked()
    live.scope.claim("a test")
    gate.release()
    with pytest.raises(SessionClosing):
        await attaching
    assert live.draft == ()


async def test_what_comes_back_is_bounded_and_comes_to_no_session_that_ends(rig, monkeypatch):
    monkeypatch.setattr("tenure.sessions.uploads.DRAFT_MAX", 1)
    session = await rig.session()
    live = rig.live(session)
    await attach(rig, session)
    mine = take(live)
    await attach(rig, session, b"text", "b.txt")
    give_back(live, mine)
    assert [upload.name for upload in live.draft] == ["a.png"], "the older one, and no more"
    live.draft = ()
    live.scope.claim("a test")
    give_back(live, mine)
    assert live.draft == ()


async def test_a_session_that_is_unloaded_keeps_its_draft(rig):
    session = await rig.session()
    await attach(rig, session)
    live = rig.live(session)
    rig.gateway.sessions.close_nowait(live, f"{UNLOADED}: a test", UNLOAD)
    await asyncio.shield(live.closing)
    opened = await rig.call("session.resume", session_id=session)
    assert opened["info"]["draft"] == ["a.png (image, 40 x 30 pixels)"]


async def test_without_the_library_usual_images_still_work(rig, monkeypatch):
    async def missing(*_):
        raise ConfigError("a.png cannot be read: the package PIL is not installed.")

    monkeypatch.setattr("tenure.uploads.workshop.Workshop.image", missing)
    session = await rig.session()
    assert (await attach(rig, session))["about"] == "a.png (image, 40 x 30 pixels)"
    for content in (png(2_001, 2), png()[:20]):
        with pytest.raises(ConfigError, match="not installed"):
            await attach(rig, session, content)
    with pytest.raises(BadValue, match="is HEIC, which models do not take"):
        await attach(rig, session, b"\0\0\0\x18ftypheic")


async def test_where_the_directory_is_elsewhere_tools_get_a_copy(rig, tmp_path, monkeypatch):
    session = await rig.session()
    (tmp_path / "a.txt").write_text("here")
    sandbox = rig.live(session).work.sandbox
    monkeypatch.setattr(type(sandbox), "files", object())  # as a container's or another machine's
    found = await rig.call("file.attach", session_id=session, path=str(tmp_path / "a.txt"))
    assert found["path"].startswith(str(tmp_path / "spill" / session / "files"))
