"""What a content is, by its content."""

from __future__ import annotations

import importlib.util
import io

import pytest

from support.pictures import pdf, png
from tenure.uploads.kinds import Judged, judge, kind_of, text_of

pytestmark = [pytest.mark.needs("pillow"), pytest.mark.needs("pypdf")]
Image = importlib.import_module("PIL.Image") if importlib.util.find_spec("PIL") else None


@pytest.mark.parametrize("form", ["PNG", "JPEG", "GIF", "WEBP", "BMP"])
def test_an_image_and_its_size(form):
    packed = io.BytesIO()
    Image.new("RGB", (301, 202), "red").save(packed, form)
    assert judge(packed.getvalue()) == Judged("image", f"image/{form.lower()}", 301, 202)


@pytest.mark.parametrize("options", [{"lossless": True}, {"exif": b"Exif\0\0"}])
def test_the_other_forms_of_webp(options):
    packed = io.BytesIO()
    Image.new("RGBA", (301, 202), (1, 2, 3, 4)).save(packed, "WEBP", **options)
    assert judge(packed.getvalue())[2:] == (301, 202)


def test_a_jpeg_with_much_before_its_size():
    packed = io.BytesIO()
    exif = Image.Exif()
    exif[0x010E] = "x" * 5_000
    Image.new("RGB", (30, 20)).save(packed, "JPEG", exif=exif, comment=b"c" * 900)
    assert judge(packed.getvalue())[2:] == (30, 20)


@pytest.mark.parametrize(
    "content", [png()[:20], b"\xff\xd8\xff", b"\xff\xd8\xff\xe0\0", b"GIF89a", b"RIFF\0\0\0\0WEBP"]
)
def test_what_is_cut_off_has_no_size_and_no_fault(content):
    assert judge(content)[0] == "image" and judge(content)[2:] == (0, 0)


def test_other_kinds():
    assert kind_of(pdf("x")) == "pdf" and kind_of(b"junk\n" + pdf("x")) == "pdf"
    assert judge(b"PK\3\4....\0") == Judged("other", "application/zip")
    assert judge(b"\0\1\2") == Judged("other", "application/octet-stream")
    assert kind_of("Grüße\n".encode()) == "text" and kind_of("x".encode("utf-16")) == "text"
    assert kind_of("é".encode("latin-1")) == "other" and kind_of(b"<svg xmlns='x'/>") == "text"
    assert text_of("\ufeffa".encode()) == "a" and text_of(b"a\0b") is None
