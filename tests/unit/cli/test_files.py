"""`tenure run --attach`: files go with the prompt, or nothing runs."""

from __future__ import annotations

import json

import pytest

from support.pictures import pdf, png
from support.served import serving
from tenure.cli import doctor, files
from tenure.errors import BadValue, TooLarge

pytestmark = [pytest.mark.needs("pillow"), pytest.mark.needs("pypdf")]
SEEN = [{"match": "a text for you", "step": {"text": "All is there."}}]


def test_several_files_of_all_kinds(place):
    (place.work / "shot.png").write_bytes(png())
    (place.work / "note.txt").write_text("a text for you")
    (place.root / "paper.pdf").write_bytes(pdf("One page"))
    ref = place.script({"text": "Something is missing."}, on=SEEN)
    named = ["-a", "shot.png", "--attach", "note.txt", "-a", str(place.root / "paper.pdf")]
    ran = place.run("run", "--model", ref, *named, "what are these?")
    assert (ran.code, ran.out) == (0, "All is there.\n")
    assert "attached shot.png (image, 40 x 30 pixels)" in ran.err
    assert "attached paper.pdf (PDF, 1 page)" in ran.err
    shown = place.run("sessions", "show", "last").out
    assert shown.startswith("› what are these?\n  with shot.png (image, 40 x 30 pixels)\n")
    exported = place.run("sessions", "export", "last").out
    assert '"about": "note.txt (text, 14 characters)"' in exported
    saved = place.root / "saved"
    out = str(place.root / "out.json")
    assert place.run("sessions", "export", "last", "--files", str(saved), "-o", out).code == 0
    contents = {path.name.partition("-")[2]: path.read_bytes() for path in saved.iterdir()}
    assert contents == {
        "shot.png": png(), "note.txt": b"a text for you", "paper.pdf": pdf("One page"),
    }  # fmt: skip
    messages = json.loads((place.root / "out.json").read_text())["messages"]
    assert {file["saved"] for file in messages[0]["files"]} == {p.name for p in saved.iterdir()}
    assert place.run("sessions", "delete", "last", "--yes").code == 0
    for folder in ("uploads", "spill"):  # neither a content nor a copy for tools is left
        assert not [path for path in (place.home / folder).rglob("*") if path.is_file()]


def test_a_model_that_cannot_see_is_a_failure_in_one_sentence(place):
    (place.work / "shot.png").write_bytes(png())
    ref = place.script({"text": "Hm."}, images=False)
    ran = place.run("run", "--model", ref, "-a", "shot.png", "what is it?")
    assert ran.code == 1 and ran.out == ""
    assert "cannot see images (shot.png); choose a model that can" in ran.err


def test_what_is_not_there_or_refused_runs_nothing(place):
    ref = place.script({"text": "Hm."})
    ran = place.run("run", "--model", ref, "-a", "nowhere.png", "hi")
    assert ran.code == 2 and "There is no file" in ran.sentence
    ran = place.run("run", "--model", ref, "-a", ".", "hi")
    assert ran.code == 2 and "no regular file" in ran.sentence
    (place.work / "torn.png").write_bytes(png()[:60])
    ran = place.run("run", "--model", ref, "-a", "torn.png", "hi")
    assert ran.code == 2 and "torn.png is damaged" in ran.err and ran.out == ""


def test_what_was_attached_before_one_was_refused_is_off_again(place):
    (place.work / "shot.png").write_bytes(png())
    (place.work / "torn.png").write_bytes(png()[:60])
    ref = place.script({"text": "One."}, {"text": "Two."})
    with serving(place, "--model", ref):
        assert place.run("run", "first").code == 0
        ran = place.run("run", "--session", "last", "-a", "shot.png", "-a", "torn.png", "second")
        assert ran.code == 2
        assert place.run("run", "--session", "last", "third").code == 0
        assert "with" not in place.run("sessions", "show", "last").out


class Wire:
    def __init__(self) -> None:
        self.calls: list[tuple[str, dict]] = []

    async def call(self, method, **params):
        self.calls.append((method, params))
        return {"id": "f1", "about": "it"}


@pytest.mark.parametrize(
    ("connect", "sent"),
    [("", "path"), ("ws://127.0.0.1:1/x", "path"), ("ws://box.example:1/x", "data_url")],
)
async def test_a_gateway_elsewhere_gets_contents(tmp_path, connect, sent):
    (tmp_path / "a.txt").write_text("x")
    wire = Wire()
    await files.attach_all(wire, "s", files.found([str(tmp_path / "a.txt")]), connect, print)
    ((method, params),) = wire.calls
    assert method == "file.attach" and sent in params
    assert set(params) == {"session_id", sent} | ({"name"} if sent == "data_url" else set())


async def test_what_does_not_fit_into_a_frame_is_not_sent(tmp_path, monkeypatch):
    (tmp_path / "a.txt").write_text("xyz")
    monkeypatch.setattr(files, "SENT_BYTES_MAX", 2)
    with pytest.raises(TooLarge, match="the most that can be sent"):
        await files.attach_all(Wire(), "s", (tmp_path / "a.txt",), "ws://box.example:1", print)
    with pytest.raises(BadValue, match="no regular file"):
        files.found([str(tmp_path)])


def test_doctor_tells_which_package_is_missing(monkeypatch):
    assert list(doctor._files(None)) == []
    monkeypatch.setattr(doctor.importlib.util, "find_spec", lambda name: name != "pypdf" or None)
    (finding,) = doctor._files(None)
    assert finding.what == "Attaching PDFs needs a package."
    assert finding.mend == "pip install 'tenure[files]'"
