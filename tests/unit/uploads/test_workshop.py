"""The child that unpacks images and PDFs: what it makes, and what it refuses."""

from __future__ import annotations

import asyncio
import importlib.util
import io

import pytest

from support.pictures import pdf, png
from tenure.clock import SystemClock
from tenure.errors import BadValue, ConfigError
from tenure.lifecycle.scope import Scope
from tenure.processes.spawn import Spawner
from tenure.uploads import child, limits, workshop
from tenure.uploads.workshop import Workshop, plain_name

pytestmark = [pytest.mark.needs("pillow"), pytest.mark.needs("pypdf")]
Image = importlib.import_module("PIL.Image") if importlib.util.find_spec("PIL") else None


@pytest.fixture
async def scope():
    scope = Scope.root("test", SystemClock())
    yield scope
    await scope.close()


@pytest.fixture
def shop():
    environ = {"PATH": "/usr/bin:/bin"}
    return Workshop(Spawner(instance="test-0", environ=environ, clock=SystemClock()))


def packed(image, form: str, **options) -> bytes:
    out = io.BytesIO()
    image.save(out, form, **options)
    return out.getvalue()


async def test_a_usual_image_stays_as_it_is(shop, scope):
    made = await shop.image(png(), "a.png", scope)
    assert made.body == b"" and (made.told.width, made.told.height) == (40, 30)
    assert not [entry for entry in scope.census() if entry.kind == "process"]


async def test_a_large_one_is_made_smaller(shop, scope):
    noise = Image.effect_noise((3_000, 1_500), 90).convert("RGB")
    made = await shop.image(packed(noise, "PNG"), "a.png", scope)
    assert (made.told.width, made.told.height) == (2_000, 1_000)
    assert made.told.type == "image/jpeg" and 0 < len(made.body) <= limits.KEPT_BYTES_MAX
    flat = await shop.image(packed(Image.new("RGBA", (4_000, 10)), "PNG"), "a.png", scope)
    assert flat.told.type == "image/png"


async def test_forms_that_providers_do_not_take_and_how_a_camera_was_held(shop, scope):
    made = await shop.image(packed(Image.new("CMYK", (30, 20)), "TIFF"), "a.tif", scope)
    assert made.told.type == "image/png" and Image.open(io.BytesIO(made.body)).size == (30, 20)
    exif = Image.Exif()
    exif[child.ORIENTATION] = 6
    photo = packed(Image.new("RGB", (30, 20)), "JPEG", exif=exif)
    made = await shop.image(photo, "a.jpg", scope)
    assert (made.told.width, made.told.height, made.told.type) == (20, 30, "image/jpeg")
    assert child.ORIENTATION not in Image.open(io.BytesIO(made.body)).getexif()


async def test_what_claims_to_be_huge_or_is_damaged(shop, scope):
    for content, why in (
        (png(shown=(30_000, 30_000)), "30,000 x 30,000 pixels, over the limit"),
        (png()[:50], "is damaged"),
        (b"\x89PNG\r\n\x1a\n", "is no image that can be read"),
    ):
        with pytest.raises(BadValue, match=why):
            await shop.image(content, "a.png", scope)


async def test_the_text_of_a_pdf(shop, scope):
    made = await shop.pdf(pdf("One page.", "Another."), "a.pdf", scope)
    assert made.told.pages == 2
    assert made.body.decode() == "[page 1]\nOne page.\n\n[page 2]\nAnother."
    for content, why in ((b"%PDF-1.4 x", "is damaged"), (_locked(), "protected by a password")):
        with pytest.raises(BadValue, match=why):
            await shop.pdf(content, "a.pdf", scope)


async def test_much_text_is_cut_and_many_pages_are_refused(shop, scope, monkeypatch):
    monkeypatch.setattr(limits, "TEXT_CHARS_MAX", 20)
    made = await shop.pdf(pdf("0123456789", "0123456789", "x"), "a.pdf", scope)
    assert made.told.cut and made.body == b"[page 1]\n0123456789\n\n["
    monkeypatch.setattr(limits, "PDF_PAGES_MAX", 2)
    with pytest.raises(BadValue, match="has 3 pages; the limit is 2"):
        await shop.pdf(pdf("a", "b", "c"), "a.pdf", scope)


async def test_a_child_that_dies_or_hangs_takes_nothing_with_it(shop, scope, monkeypatch):
    monkeypatch.setattr(workshop, "MODULE", "tenure.no_such_module")
    with pytest.raises(BadValue, match="too much memory or time"):
        await shop.image(png() * 10_000, "a.png", scope)
    monkeypatch.setattr(workshop, "DEADLINE_S", 0.5)
    monkeypatch.setattr(workshop, "python_argv", lambda *_: ("sleep", "60"))
    with pytest.raises(BadValue, match="could not be read within"):
        async with asyncio.timeout(30):
            await shop.pdf(b"%PDF-", "a.pdf", scope)
    assert not [entry for entry in scope.census() if entry.kind == "process"]


async def test_a_library_that_is_missing_is_named(shop, scope, monkeypatch):
    told = 'import sys; sys.stdin.buffer.read(); print(\'{"missing": "PIL"}\')'
    argv = (__import__("sys").executable, "-c", told)
    monkeypatch.setattr(workshop, "python_argv", lambda *_: argv)
    with pytest.raises(ConfigError, match=r"package PIL is not installed; run pip install"):
        await shop.image(png(), "a.png", scope)


def test_the_child_limits_itself():
    source = "import resource, sys; from tenure.uploads import child; child._image = lambda *_: (\
{'m': resource.getrlimit(resource.RLIMIT_AS), 'f': resource.getrlimit(resource.RLIMIT_FSIZE)}, b'')\
; child.main(['image', '1', '1', '1'])"
    import json
    import subprocess
    import sys

    ran = subprocess.run([sys.executable, "-c", source], input=b"", capture_output=True, check=True)
    assert json.loads(ran.stdout) == {"m": [child.MEMORY_BYTES_MAX] * 2, "f": [0, 0]}


@pytest.mark.parametrize(
    ("given", "shown"),
    [("../a/b.png", "b.png"), ("C:\\x\\y.png", "y.png"), ("a\nb\x1b[1m", "a_b_[1m"), ("", "file"),
     ("x" * 300, "x" * 120)],
)  # fmt: skip
def test_a_name_is_one_component_for_people(given, shown):
    assert plain_name(given) == shown


def _locked() -> bytes:
    from pypdf import PdfReader, PdfWriter

    writer = PdfWriter(PdfReader(io.BytesIO(pdf("secret"))))
    writer.encrypt("word", algorithm="RC4-128")
    out = io.BytesIO()
    writer.write(out)
    return out.getvalue()
