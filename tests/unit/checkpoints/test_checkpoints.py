"""What a folder held comes back, and nothing else is touched."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket

import msgspec
import pytest

from support.checkpoints import SESSION, picture
from tenure.checkpoints import blobs as blobs_module
from tenure.checkpoints.manifest import unpack
from tenure.checkpoints.records import find
from tenure.errors import BadValue, Conflict, NotFound, StoreError, StoreFull

OTHER = "20260131_120000_ffffffff"


async def test_everything_comes_back_with_its_mode(bench):
    before = picture(bench.root)
    record = await bench.take()
    assert record.files == len(before) and not record.skipped and not record.partial
    shutil.rmtree(bench.root / "a")
    (bench.root / "top.txt").write_text("other")
    (bench.root / "link").unlink()
    (bench.root / "link").mkdir()
    (bench.root / "link" / "inner").write_text("x")
    (bench.root / "empty").rmdir()
    (bench.root / "empty").write_text("now a file")
    done = await bench.restore()
    assert picture(bench.root) == before
    assert not done.outcome.problems
    assert done.outcome.removed == ["link/inner"]


async def test_a_restore_can_be_undone(bench):
    await bench.take()
    shutil.rmtree(bench.root / "a" / "b")
    (bench.root / "top.txt").write_text("changed by hand")
    (bench.root / "new.txt").write_text("made since")
    changed = picture(bench.root)
    done = await bench.restore()
    assert done.outcome.left == ["new.txt"] and (bench.root / "a" / "b" / "c" / "secret").exists()
    back = await bench.restore(done.undo.id)
    assert picture(bench.root) == changed
    assert "a/b/c/secret" in back.outcome.removed and not back.outcome.problems
    again = await bench.restore(back.undo.id)
    assert (bench.root / "a" / "b" / "c" / "secret").exists() and not again.outcome.problems


async def test_what_was_made_since_is_left_unless_it_is_to_go(bench):
    before = picture(bench.root)
    await bench.take()
    (bench.root / "new" / "er").mkdir(parents=True)
    (bench.root / "new" / "er" / "f").write_text("1")
    left = await bench.restore()
    assert left.outcome.left_count == 3 and (bench.root / "new" / "er" / "f").exists()
    gone = await bench.restore(remove_new=True)
    assert picture(bench.root) == before and gone.outcome.removed_count == 3


async def test_one_file_and_what_leads_to_it(bench):
    before = picture(bench.root)
    await bench.take()
    shutil.rmtree(bench.root / "a")
    (bench.root / "top.txt").write_text("stays changed")
    await bench.restore("", "a/b/c/secret")
    now = picture(bench.root)
    assert now["a/b/c/secret"] == before["a/b/c/secret"] and now["a/b"] == before["a/b"]
    assert "a/run.sh" not in now and now["top.txt"][2] == b"stays changed"
    await bench.restore("2", str(bench.root / "top.txt"))  # the one that the restore took
    assert (bench.root / "top.txt").read_text() == "stays changed"
    for bad in ("../x", "/etc/passwd", "a/../../x"):
        with pytest.raises(BadValue, match="below the working directory"):
            await bench.restore("", bad)


async def test_names_that_are_no_text(bench):
    name = os.fsencode(bench.root) + b"/caf\xe9"
    with open(name, "wb") as file:
        file.write(b"latin")
    await bench.take()
    os.unlink(name)
    done = await bench.restore()
    assert done.outcome.restored == ["caf\\xe9"]
    with open(name, "rb") as file:
        assert file.read() == b"latin"


async def test_a_second_look_reads_nothing_again(bench, monkeypatch):
    bench.root.joinpath("top.txt")
    for path in bench.root.rglob("*"):
        os.utime(path, (1_000_000_000, 1_000_000_000), follow_symlinks=False)
    await asyncio.sleep(0.06)  # the system's own change times must be older than a moment
    first = await bench.take()
    assert first.added > 0
    read: list[int] = []
    real = blobs_module.Blobs.keep_file
    monkeypatch.setattr(
        blobs_module.Blobs,
        "keep_file",
        lambda self, fd, *more: read.append(fd) or real(self, fd, *more),
    )
    second = await bench.take(turn="turn_2")
    assert not read and second.added == 0 and second.manifest == first.manifest
    (bench.root / "top.txt").write_text("tip\n")  # as long as before
    third = await bench.take(turn="turn_3")
    assert len(read) == 1 and third.manifest != first.manifest
    await bench.take(OTHER)  # a session that has none yet knows the folder all the same
    assert len(read) == 2  # the file just written, whose time may not tell everything


async def test_a_file_changed_in_the_same_moment_is_seen(bench):
    """Same length, and the times of files are coarse: nothing but its content tells."""
    path = bench.root / "top.txt"
    await bench.take()
    st = path.stat()
    path.write_text("tip\n")
    os.utime(path, ns=(st.st_atime_ns, st.st_mtime_ns))
    await bench.take(turn="turn_2")
    path.write_text("lost")
    await bench.restore()
    assert path.read_text() == "tip\n"


async def test_limits_are_kept_and_said(bench):
    (bench.root / "large").write_bytes(b"x" * 2_000)
    for skipped in ("node_modules", "venv2", "cache"):
        (bench.root / skipped).mkdir()
        (bench.root / skipped / "f").write_text("f")
    (bench.root / "venv2" / "pyvenv.cfg").write_text("home = x")
    tag = "Signature: 8a477f597d28d172789f06886806bc55\n# made by a test"
    (bench.root / "cache" / "CACHEDIR.TAG").write_text(tag)
    os.mkfifo(bench.root / "pipe")
    bench.limits = msgspec.structs.replace(bench.limits, file_bytes_max=1_000)
    record = await bench.take()
    said = {one.path: one.why for one in record.skipped}
    assert said["large"] == "over 1,000 bytes" and said["a/b/c/data.bin"] == "over 1,000 bytes"
    assert "checkpoints.skip" in said["node_modules"]
    assert "virtual environment" in said["venv2"] and "cache" in said["cache"]
    assert "neither a file" in said["pipe"]
    assert record.skipped_count == 6 and not record.partial
    shutil.rmtree(bench.root / "venv2")
    await bench.restore()
    assert not (bench.root / "venv2").exists(), "what is not covered is not half given back"


async def test_over_all_limits_what_is_near_the_root_is_covered(bench):
    bench.limits = msgspec.structs.replace(bench.limits, files_max=5)
    record = await bench.take()
    assert record.partial and record.files == 5
    kept = unpack(bench.keeper._blobs.content(bytes.fromhex(record.manifest)))
    assert set(kept) >= {b"a", b"empty", b"link", b"top.txt"}
    assert any("more than 5 entries" in one.why for one in record.skipped)
    bench.limits = msgspec.structs.replace(bench.limits, files_max=100, total_bytes_max=100)
    record = await bench.take(turn="turn_2")
    assert record.partial and record.bytes < 100
    bench.limits = msgspec.structs.replace(bench.limits, total_bytes_max=10**9, seconds_max=-1.0)
    record = await bench.take(turn="turn_3")
    assert record.partial and "took over" in record.skipped[0].why


async def test_what_could_not_be_saved_first_is_not_overwritten(bench):
    await bench.take()
    (bench.root / "top.txt").write_bytes(b"x" * 3_000)
    bench.limits = msgspec.structs.replace(bench.limits, file_bytes_max=1_000)
    done = await bench.restore("", "top.txt")
    assert (bench.root / "top.txt").read_bytes() == b"x" * 3_000
    assert [one.path for one in done.outcome.problems] == ["top.txt"]
    assert "could not be saved first" in done.outcome.problems[0].why
    sock = socket.socket(socket.AF_UNIX)
    (bench.root / "link").unlink()
    sock.bind(str(bench.root / "link"))
    done = await bench.restore("", "link")
    sock.close()
    assert [one.path for one in done.outcome.problems] == ["link"]


async def test_our_own_folder_is_never_covered(bench, tmp_path):
    bench.root = tmp_path
    record = await bench.take()
    assert {"path": "home", "why": "Tenure's own folder"} in msgspec.to_builtins(record.skipped)


async def test_links_that_lead_out_are_kept_and_not_followed(bench, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "f").write_text("not ours")
    (bench.root / "out").symlink_to(outside)
    await bench.take()
    # What was a folder is swapped for a link that leads out.
    shutil.rmtree(bench.root / "a")
    (bench.root / "a").symlink_to(outside)
    done = await bench.restore()
    assert not done.outcome.problems
    assert (bench.root / "a" / "run.sh").exists() and not (bench.root / "a").is_symlink()
    assert (
        picture(outside) == {"f": picture(outside)["f"]}
        and (outside / "f").read_text() == "not ours"
    )


async def test_a_folder_swapped_for_a_link_in_between_leads_nowhere(bench, tmp_path, monkeypatch):
    """Between the look and the writing, at every single step."""
    outside = tmp_path / "outside"
    outside.mkdir()
    await bench.take()
    (bench.root / "a" / "run.sh").unlink()
    (bench.root / "a" / "b" / "c" / "secret").unlink()
    from tenure.checkpoints.restore import Restorer

    real = Restorer.run

    def swapped(self, changes):
        (bench.root / "a").rename(bench.root / "moved")
        (bench.root / "a").symlink_to(outside)
        return real(self, changes)

    monkeypatch.setattr(Restorer, "run", swapped)
    done = await bench.restore()
    assert picture(outside) == {}
    assert {one.path for one in done.outcome.problems} == {"a/run.sh", "a/b/c/secret"}


async def test_a_root_that_leads_elsewhere_is_refused(bench, tmp_path):
    await bench.take()
    bench.root.rename(tmp_path / "old")
    (tmp_path / "elsewhere").mkdir()
    bench.root.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(Conflict, match="leads elsewhere"):
        await bench.restore()
    assert not any((tmp_path / "elsewhere").iterdir())


async def test_a_root_that_was_deleted_is_made_again(bench):
    bench.root.chmod(0o750)
    before = picture(bench.root)
    await bench.take()
    shutil.rmtree(bench.root)
    with pytest.raises(NotFound, match="is gone"):
        await bench.diff()
    await bench.restore()
    assert picture(bench.root) == before and bench.root.stat().st_mode & 0o777 == 0o750


async def test_the_difference_in_words(bench):
    await bench.take()
    (bench.root / "top.txt").write_text("top\nand more\n")
    (bench.root / "a" / "run.sh").chmod(0o644)
    (bench.root / "a" / "b" / "c" / "secret").unlink()
    (bench.root / "a" / "b" / "c" / "data.bin").write_bytes(b"\0\1")
    (bench.root / "new").write_text("n")
    told = await bench.diff()
    assert {(c.path, c.what) for c in told.changes} == {
        ("top.txt", "modified"), ("a/run.sh", "mode"), ("a/b/c/secret", "deleted"),
        ("a/b/c/data.bin", "modified"), ("new", "created"),
    }  # fmt: skip
    assert "+and more" in told.diff and "mode 0755, now 0644" in told.diff
    assert "too large or no text" in told.diff and told.truncated
    assert "deleted   a/b/c/secret" in told.stat
    one = await bench.diff("1", "top.txt")
    assert [c.path for c in one.changes] == ["top.txt"] and not one.truncated


async def test_names_of_checkpoints(bench):
    first = await bench.take()
    second = await bench.take(turn="turn_2")
    assert [r.id for r in await bench.keeper.of_session(bench.scope, SESSION)] == [
        first.id,
        second.id,
    ]
    for ref in ("1", first.id, first.id[:10]):
        done = await bench.restore(ref)
        assert done.checkpoint.id == first.id
        assert (await bench.restore(str(done.undo.ordinal))).checkpoint.kind == "restore", ref
    for ref in ("99", "0", "zz", "feed"):
        with pytest.raises(NotFound, match="no checkpoint"):
            await bench.restore(ref)
    with pytest.raises(NotFound, match="no checkpoint"):
        await bench.keeper.diff(bench.scope, OTHER, "", "")


async def test_a_number_stays_its_own_when_older_ones_go(bench):
    bench.limits = msgspec.structs.replace(bench.limits, per_session_max=2)
    for turn in ("turn_1", "turn_2", "turn_3"):
        last = await bench.take(turn=turn)
    kept = await bench.keeper.of_session(bench.scope, SESSION)
    assert [r.ordinal for r in kept] == [2, 3]
    assert (await bench.diff("3")) is not None and last.ordinal == 3
    with pytest.raises(NotFound, match="no checkpoint '1'"):
        await bench.diff("1")


async def test_a_path_that_is_nowhere_is_an_error_and_takes_nothing(bench):
    await bench.take()
    before = picture(bench.root)
    for nowhere in ("missing.txt", "a/b/missing", "missing/er"):
        with pytest.raises(NotFound, match="there is none now"):
            await bench.restore("", nowhere)
    assert picture(bench.root) == before
    assert len(await bench.keeper.of_session(bench.scope, SESSION)) == 1
    (bench.root / "since").write_text("x")
    assert (await bench.restore("", "since")).outcome.left == ["since"]


async def test_a_damaged_content_is_said_and_the_rest_comes_back(bench):
    await bench.take()
    digest = __import__("hashlib").sha256(b"top\n").digest()
    bench.keeper._blobs.path(digest).write_bytes(b"rot\n")
    (bench.root / "top.txt").unlink()
    (bench.root / "a" / "run.sh").unlink()
    done = await bench.restore()
    assert (bench.root / "a" / "run.sh").exists() and not (bench.root / "top.txt").exists()
    assert "damaged" in done.outcome.problems[0].why
    assert not [p for p in bench.root.iterdir() if p.name.startswith(".tenure")]


async def test_age_number_and_bytes_are_limited(bench):
    record = await bench.take()
    (bench.root / "more").write_bytes(os.urandom(50_000))
    bench.clock.advance(10 * 86_400)
    newer = await bench.take(turn="turn_2")
    bench.clock.advance(5 * 86_400)
    swept = await bench.sweep(SESSION)
    assert swept.checkpoints == 1 and [
        r.id for r in await bench.keeper.of_session(bench.scope, SESSION)
    ] == [newer.id]
    assert record.id != newer.id
    bench.limits = msgspec.structs.replace(bench.limits, store_bytes_max=60_000)
    swept = await bench.sweep(SESSION)
    assert swept.checkpoints == 1 and bench.blobs() == 0
    bench.limits = msgspec.structs.replace(bench.limits, store_bytes_max=10**9, per_session_max=3)
    for turn in range(6):
        await bench.take(turn=f"turn_{turn}")
    assert len(await bench.keeper.of_session(bench.scope, SESSION)) == 3


async def test_what_belongs_to_no_session_is_swept(bench):
    await bench.take()
    await bench.take(OTHER)
    assert await bench.keeper.forget(bench.scope, SESSION)
    assert not await bench.keeper.forget(bench.scope, SESSION)
    swept = await bench.sweep(OTHER)
    assert swept.checkpoints == 0 and bench.blobs() > 70_000
    swept = await bench.sweep()
    assert swept.checkpoints == 1 and swept.contents > 0
    assert bench.blobs() == 0


async def test_a_full_disk_takes_no_checkpoint_and_hurts_none(bench, monkeypatch):
    record = await bench.take()
    monkeypatch.setattr(blobs_module, "FREE_BYTES_MIN", 1 << 62)
    with pytest.raises(StoreFull, match="are left"):
        await bench.take(turn="turn_2")
    with pytest.raises(StoreFull):
        await bench.restore()
    assert [r.id for r in await bench.keeper.of_session(bench.scope, SESSION)] == [record.id]
    assert not (await bench.diff()).changes


async def test_off_means_off(bench):
    bench.limits = msgspec.structs.replace(bench.limits, enabled=False)
    assert await bench.take() is None and not bench.kept.exists()


async def test_a_caller_that_leaves_ends_the_look(bench, monkeypatch):
    import threading

    inside, go_on = threading.Event(), threading.Event()
    real = blobs_module.Blobs.keep_file

    def held(self, *args):
        inside.set()
        go_on.wait(30)
        return real(self, *args)

    monkeypatch.setattr(blobs_module.Blobs, "keep_file", held)
    task = asyncio.get_running_loop().create_task(bench.take())
    while not inside.is_set():
        await asyncio.sleep(0.001)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    go_on.set()
    await bench.scope.close()  # waits for the thread
    assert not list(bench.kept.glob("sessions/*/*")), "it went on to its end all the same"


async def test_a_cut_restore_is_tidied_up_after(bench, monkeypatch):
    record = await bench.take()
    shutil.rmtree(bench.root / "a")
    from tenure.checkpoints.restore import Restorer

    real = Restorer._into_place
    done = []

    def cut(self, fd, name):
        if done:
            raise SystemExit  # as far as files go, what a kill does
        done.append(name)
        real(self, fd, name)

    monkeypatch.setattr(Restorer, "_into_place", cut)
    monkeypatch.setattr(os, "unlink", lambda *a, **k: None)
    monkeypatch.setattr(
        "tenure.checkpoints.records.Records.end_restore", lambda self, checkpoint_id: None
    )
    with pytest.raises(SystemExit):
        bench.keeper._apply(record, record, _all(bench, record), frozenset())
    monkeypatch.undo()
    parts = list(bench.root.rglob(".tenure-restore-*"))
    assert parts
    swept = await bench.sweep(SESSION)
    assert swept.cut_restores == 1 and not any(p.exists() for p in parts)
    assert (await bench.sweep(SESSION)).cut_restores == 0


def _all(bench, record):
    from tenure.checkpoints.manifest import changes

    return changes(bench.keeper._entries(record), {}, b"a")


async def test_a_damaged_list_of_files_is_an_error_in_words(bench):
    record = await bench.take()
    path = bench.keeper._blobs.path(bytes.fromhex(record.manifest))
    path.write_bytes(b"nonsense")
    with pytest.raises(StoreError, match="damaged"):
        await bench.restore()
    assert (await bench.take(turn="turn_2")).files == record.files


async def test_folders_that_nobody_may_write_to_come_back_as_they_were(bench):
    inner = bench.root / "sealed" / "inner"
    inner.mkdir(parents=True)
    (inner / "f").write_text("f")
    inner.chmod(0o500)
    inner.parent.chmod(0o555)
    before = picture(bench.root)
    await bench.take()
    inner.parent.chmod(0o755)
    inner.chmod(0o755)
    shutil.rmtree(bench.root / "sealed")
    await bench.restore()
    assert picture(bench.root) == before
    inner.parent.chmod(0o755)
    inner.chmod(0o755)


async def test_what_changes_while_it_is_being_restored_is_left_and_said(bench, monkeypatch):
    from tenure.checkpoints.restore import Restorer

    await bench.take()
    (bench.root / "top.txt").write_text("changed once")
    real = Restorer.run

    def meanwhile(self, changes):
        (bench.root / "top.txt").write_text("by another program")
        return real(self, changes)

    monkeypatch.setattr(Restorer, "run", meanwhile)
    done = await bench.restore()
    assert (bench.root / "top.txt").read_text() == "by another program"
    assert [one.why for one in done.outcome.problems] == [
        "It changed while it was being restored; restore again."
    ]


async def test_another_file_system_is_left_out(bench, monkeypatch):
    (bench.root / "mounted").mkdir()
    (bench.root / "mounted" / "f").write_text("elsewhere")

    class Elsewhere:
        def __getattr__(self, name):
            return getattr(os, name)

        def stat(self, name, **more):
            st = os.stat(name, **more)
            return os.stat_result((*st[:2], st.st_dev + 1, *st[3:10])) if name == b"mounted" else st

    monkeypatch.setattr("tenure.checkpoints.scan.os", Elsewhere())
    record = await bench.take()
    assert {one.path: one.why for one in record.skipped} == {"mounted": "another file system"}


def test_where_there_is_none_that_is_said():
    with pytest.raises(NotFound, match="There is no checkpoint yet"):
        find([], "")
    with pytest.raises(NotFound, match="There is no checkpoint '7' in this session"):
        find([], "7")
