"""The terminal client, unmodified: pictures and PDFs that are named, pasted or dropped into it."""

from __future__ import annotations

import pytest

from support.pictures import pdf, png
from support.served import serving

pytestmark = [pytest.mark.needs("pillow"), pytest.mark.needs("pypdf")]

SEEN = [
    {"match": "shot.png (image, 40 x 30", "step": {"text": "I see a grey picture."}},
    {"match": "Much to be read", "step": {"text": "I have read it."}},
]


def test_pictures_by_command_and_by_paste_and_a_pdf_by_drop(place, client):
    shot, other = place.work / "shot.png", place.root / "other place" / "shot.png"
    other.parent.mkdir()
    for file in (shot, other):
        file.write_bytes(png())
    (place.work / "paper.pdf").write_bytes(pdf("Much to be read"))
    ref = place.script({"text": "I see nothing."}, loop=True, on=SEEN)
    with serving(place, "--model", ref) as served, client(served) as term:
        term.wait("ready │ script.json")
        term.enter(f"/image {shot}")
        term.wait(r"Attached image: shot.png · 40x30")
        term.enter("what is it")
        term.wait("I see a grey picture.", "ready │")

        term.paste(str(other).replace(" ", "\\ "))
        term.wait("Attached image: shot.png.* Attached image: shot.png")
        term.enter("and this one")
        term.wait("I see a grey picture.* I see a grey picture", "ready │")

        term.enter(f"{place.work / 'paper.pdf'} what does it say")
        term.wait("I have read it.", "ready │")
        term.enter("/image /nowhere/at/all.png")
        term.wait("There is no file '/nowhere/at/all.png'")
    shown = place.run("sessions", "show", "last").out
    assert shown.count("  with shot.png (image, 40 x 30 pixels)\n") == 2
    assert "  with paper.pdf (PDF, 1 page)\n" in shown


def test_a_picture_at_the_start_and_a_model_that_cannot_see(place, client):
    shot = place.work / "shot.png"
    shot.write_bytes(png())
    ref = place.script({"text": "Fine."}, images=False)
    more = {"HERMES_TUI_IMAGE": str(shot), "HERMES_TUI_QUERY": "what is it"}
    with serving(place, "--model", ref) as served, client(served, env=more) as term:
        term.wait(r"cannot see images \(shot.png\); choose a model that can", "ready │")
        term.enter("then tell me something else")
        term.wait("Fine.", "ready │")
