"""file.attach: a file of any kind goes with the next prompt, and from then on with the history."""

from __future__ import annotations

import pytest

from support.pictures import b64, pdf, png
from tenure.config import ApprovalRule
from tenure.errors import BadValue, NotFound, Overloaded, ReadOnly, TooLarge, ToolDenied
from tenure.models.base import BLIND, Sight
from tenure.testing.clock import settle

pytestmark = [pytest.mark.needs("pillow"), pytest.mark.needs("pypdf")]


def asked(rig, number: int = -1):
    """The messages of a request to the model."""
    return rig.gateway.picker.script.requests[number]


async def test_an_image_is_seen_by_the_model_and_stays_in_the_history(rig, tmp_path):
    session = await rig.session()
    (tmp_path / "shot.dat").write_bytes(png())  # its content says what it is
    found = await rig.call("file.attach", session_id=session, path="shot.dat")
    assert found["kind"] == "image" and found["name"] == "shot.dat" and found["count"] == 1
    assert found["about"] == "shot.dat (image, 40 x 30 pixels)" and not found["uploaded"]
    assert found["path"] == str(tmp_path / "shot.dat") and not found["warning"]
    await rig.turn(session, "what is it?")
    (message,) = asked(rig).messages
    assert message.text.startswith("what is it?\n\n[attached: shot.dat (image, 40 x 30 pixels)")
    assert asked(rig).media == {message.files[0].digest: png()}
    assert (await rig.call("prompt.files.list", session_id=session))["entries"] == []
    assert (await rig.gateway.store.session(session)).draft == ()
    await rig.turn(session, "and now?")
    first, _, second = asked(rig).messages
    assert [f.name for f in first.files] == ["shot.dat"] and not second.files
    assert len(asked(rig).media) == 1
    told = await rig.call("session.history", session_id=session)
    assert told["messages"][0]["text"] == "what is it?"
    assert told["messages"][0]["files"][0]["about"] == "shot.dat (image, 40 x 30 pixels)"


async def test_several_of_all_kinds_with_one_prompt(rig, tmp_path):
    session = await rig.session()
    for name, content in (
        ("a.png", png()), ("b.txt", b"a text\n"), ("c.pdf", pdf("Hello there")), ("d.zip", b"PK\3\4\0\0"),
    ):  # fmt: skip
        sent = await rig.call("file.attach", session_id=session, data_url=b64(content), name=name)
        assert sent["uploaded"] and sent["path"].endswith(name)
        with open(sent["path"], "rb") as copy:  # tools find the whole of it there
            assert copy.read() == content
    rows = (await rig.call("prompt.files.list", session_id=session))["entries"]
    assert [row["kind"] for row in rows] == ["image", "text", "pdf", "other"]
    await rig.turn(session, "all of them")
    (message,) = asked(rig).messages
    assert [f.name for f in message.files] == ["a.png"]
    assert "a text" in message.text and "[end of b.txt]" in message.text
    assert "[page 1]\nHello there" in message.text
    assert "d.zip (application/zip, 6 bytes)" in message.text and "it is no text" in message.text


async def test_a_pdf_goes_as_it_is_to_a_model_that_takes_it(rig):
    session = await rig.session()
    rig.gateway.picker.script.sight = Sight(images=True, pdfs=True)
    await rig.call("file.attach", session_id=session, data_url=b64(pdf("x")), name="c.pdf")
    await rig.turn(session, "read")
    (message,) = asked(rig).messages
    assert [f.type for f in message.files] == ["application/pdf"] and "[page" not in message.text
    assert list(asked(rig).media.values()) == [pdf("x")]


async def test_a_model_that_cannot_see_is_told_of_in_one_sentence(rig):
    session = await rig.session()
    rig.gateway.picker.script.sight = BLIND
    sent = await rig.call("file.attach", session_id=session, data_url=b64(png()), name="a.png")
    assert "cannot see images; choose a model that can" in sent["warning"]
    end = await rig.turn(session, "what is it?")
    assert end["state"] == "failed" and end["code"] == 5036
    assert end["error"].startswith("scripted:test cannot see images (a.png); choose a model")
    assert not rig.gateway.picker.script.requests
    await rig.turn(session, "then without it")
    first, _ = asked(rig).messages
    notes = [e.payload["text"] for e in rig.client.seen if e.type == "status.update"]
    assert "scripted:test cannot see images, so it is not shown a.png." in notes
    assert not first.files and "you are not shown the image itself" in first.text
    rig.gateway.picker.script.sight = Sight(images=True)
    await rig.turn(session, "and now?")
    assert [f.name for f in asked(rig).messages[0].files] == ["a.png"]  # nothing was lost


async def test_what_may_not_be_read(rig, tmp_path):
    session = await rig.session()
    home = tmp_path / "home"
    _made(home)
    (home / "token").write_text("secret")
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh" / "id").write_text("key")
    outside = await rig.session(cwd=str(_made(tmp_path / "work")))
    _made(tmp_path / "ring")
    (tmp_path / "ring" / "key").write_text("key")
    (tmp_path / ".gnupg").symlink_to("ring")
    for path, why in (
        ("~/.ssh/id", "keeps secrets"),
        ("~/.gnupg/key", "keeps secrets"),
        (str(home / "token"), "keeps secrets"),
    ):
        with pytest.raises(ToolDenied, match=why):
            await rig.call("file.attach", session_id=outside, path=path)
    (tmp_path / "work" / "link").symlink_to(tmp_path / ".ssh" / "id")
    with pytest.raises(ToolDenied, match="keeps secrets"):
        await rig.call("file.attach", session_id=outside, path="link")
    for path in ("/proc/self/environ", "/dev/null"):  # the gateway's own keys, for one
        with pytest.raises(BadValue, match="no regular file"):
            await rig.call("file.attach", session_id=session, path=path)
    with pytest.raises(NotFound, match="no file"):
        await rig.call("file.attach", session_id=session, path="nowhere.png")
    with pytest.raises(BadValue, match="a folder"):
        await rig.call("file.attach", session_id=session, path=".")
    (tmp_path / "note.txt").write_text("elsewhere")  # the owner may name what is not secret
    assert await rig.call("file.attach", session_id=outside, path=str(tmp_path / "note.txt"))
    with pytest.raises(BadValue, match="either a path or"):
        await rig.call("file.attach", session_id=session)
    with pytest.raises(BadValue, match="either a path or"):
        await rig.call("file.attach", session_id=session, path="note.txt", data_url=b64(b"x"))


async def test_only_a_client_of_this_machine_names_what_is_outside(rig, tmp_path, monkeypatch):
    session = await rig.session(cwd=str(_made(tmp_path / "work")))
    (tmp_path / "note.txt").write_text("elsewhere")
    (tmp_path / "work" / "own.txt").write_text("here")
    monkeypatch.setattr("tenure.rpc.connection.is_near", lambda _peer: False)
    with pytest.raises(ToolDenied, match="only clients on the gateway's own machine"):
        await rig.call("file.attach", session_id=session, path=str(tmp_path / "note.txt"))
    with pytest.raises(ToolDenied, match="only clients on the gateway's own machine"):
        await rig.call("image.attach", session_id=session, path=str(tmp_path / "note.txt"))
    with pytest.raises(ToolDenied, match="only clients on the gateway's own machine"):
        attach = f"/attach {tmp_path / 'note.txt'}"
        await rig.call("slash.exec", session_id=session, command=attach)
    assert await rig.call("file.attach", session_id=session, path="own.txt")
    pasted = await rig.call("clipboard.paste", session_id=session)
    assert not pasted["attached"] and "another machine" in pasted["message"]


async def test_what_is_no_use_is_refused_in_a_sentence(rig):
    session = await rig.session()
    for content, error, why in (
        (b"", BadValue, "either a path"),
        (png(shown=(40_000, 40_000)), TooLarge, "40,000 x 40,000 pixels; the limit is 64 million"),
        (png()[:60], BadValue, r"a\.bin is damaged"),
        (b"%PDF-1.7 junk", BadValue, "is damaged"),
    ):
        with pytest.raises(error, match=why):
            await rig.call("file.attach", session_id=session, data_url=b64(content), name="a.bin")
    with pytest.raises(BadValue, match="no base64"):
        await rig.call("file.attach", session_id=session, data_url="data:x;base64,#", name="a")
    assert (await rig.call("prompt.files.list", session_id=session))["entries"] == []


async def test_what_waits_is_bounded(rig, monkeypatch):
    monkeypatch.setattr("tenure.sessions.uploads.DRAFT_MAX", 2)
    session = await rig.session()
    for name in ("a", "b"):
        await rig.call("file.attach", session_id=session, data_url=b64(b"x"), name=name)
    with pytest.raises(Overloaded, match="2 files wait"):
        await rig.call("file.attach", session_id=session, data_url=b64(b"x"), name="c")
    monkeypatch.setattr("tenure.sessions.uploads.DRAFT_MAX", 9)
    monkeypatch.setattr("tenure.sessions.uploads.DRAFT_BYTES_MAX", 2)
    with pytest.raises(Overloaded, match="would wait"):
        await rig.call("file.attach", session_id=session, data_url=b64(b"x"), name="c")


async def test_a_file_over_the_limit_of_its_kind(rig, monkeypatch, tmp_path):
    monkeypatch.setattr("tenure.uploads.limits.FILE_BYTES_MAX", 4)
    monkeypatch.setattr("tenure.uploads.limits.IMAGE_BYTES_MAX", 4)
    session = await rig.session()
    for content in (b"12345", png()):
        with pytest.raises(TooLarge, match="MiB; the limit for such a file is"):
            await rig.call("file.attach", session_id=session, data_url=b64(content), name="a")
    monkeypatch.setattr("tenure.sessions.sources.BYTES_MAX", 3)
    (tmp_path / "a.txt").write_text("1234")
    with pytest.raises(TooLarge, match="the limit for files of prompts"):
        await rig.call("file.attach", session_id=session, path="a.txt")


async def test_what_rules_and_the_sandbox_say_of_reading_counts(rig, tmp_path, monkeypatch):
    session = await rig.session()
    (tmp_path / "keys").mkdir()
    (tmp_path / "keys" / "a.txt").write_text("x")
    (tmp_path / "b.txt").symlink_to("keys/a.txt")
    live = rig.live(session)
    rules = (ApprovalRule("deny", tool="read", path="keys"),)
    set_rules(live, rules)
    for path in ("keys/a.txt", "b.txt", str(tmp_path / "keys" / "a.txt"), "x/../keys/a.txt"):
        (tmp_path / "x").mkdir(exist_ok=True)
        with pytest.raises(ToolDenied, match="A rule denies read"):
            await rig.call("file.attach", session_id=session, path=path)
    set_rules(live, (ApprovalRule("deny", tool="read", path="b.txt"),))
    with pytest.raises(ToolDenied, match="A rule denies read"):
        await rig.call("file.attach", session_id=session, path="b.txt")
    set_rules(live, (ApprovalRule("deny", tool="read"),))
    for path in ("keys/a.txt", "/etc/hostname"):
        with pytest.raises(ToolDenied, match="A rule denies read"):
            await rig.call("file.attach", session_id=session, path=path)
    set_rules(live, (ApprovalRule("ask", tool="read"),))
    assert await rig.call("file.attach", session_id=session, path="keys/a.txt")  # naming is a yes
    monkeypatch.setattr(type(live.work.sandbox), "hidden", (tmp_path / "keys",))
    with pytest.raises(BadValue, match="kept out of sight"):
        await rig.call("file.attach", session_id=session, path="keys/a.txt")


def set_rules(live, rules) -> None:
    live.questions._rules = rules


async def test_a_viewer_attaches_nothing(rig):
    session = await rig.session()
    viewer, scope = await rig.gateway.client()
    await viewer.call("session.attach", session_id=session, role="viewer")
    for method, more in (
        ("file.attach", {"data_url": b64(b"x")}), ("image.attach", {"path": "x"}),
        ("image.attach_bytes", {"data": b64(png())}), ("pdf.attach", {"data": b64(pdf("x"))}),
        ("image.detach", {"path": "x"}), ("prompt.files.remove", {"id": "1"}),
        ("clipboard.paste", {}), ("input.detect_drop", {"text": "/etc/hostname"}),
    ):  # fmt: skip
        with pytest.raises(ReadOnly):
            await viewer.call(method, session_id=session, **more)
    await scope.close()


async def test_a_client_that_is_lost_loses_no_file(rig):
    session = await rig.session()
    other, scope = await rig.gateway.client()
    await other.call("session.attach", session_id=session)
    await other.call("file.attach", session_id=session, data_url=b64(b"text"), name="a.txt")
    shown = await rig.client.until("prompt.files", session)
    assert [row["name"] for row in shown.payload["entries"]] == ["a.txt"]
    await scope.close()
    await settle()
    rows = (await rig.call("prompt.files.list", session_id=session))["entries"]
    assert [row["name"] for row in rows] == ["a.txt"]
    stored = await rig.gateway.store.session(session)
    assert [upload.name for upload in stored.draft] == ["a.txt"]


async def test_guards(rig):
    await rig.refuses_strangers("file.attach", data_url=b64(b"x"))
    await rig.refuses_wrong_types("file.attach", session_id="x", path="y")


def _made(folder):
    folder.mkdir()
    return folder


async def test_a_folder_outside_is_refused_and_leaves_no_descriptor(rig, tmp_path):
    outside = await rig.session(cwd=str(_made(tmp_path / "work")))
    folder = _made(tmp_path / "elsewhere")
    with pytest.raises(BadValue, match="is a folder; attach its files one by one"):
        await rig.call("file.attach", session_id=outside, path=str(folder))
