"""pdf.attach: a whole PDF, by path or content."""

from __future__ import annotations

import pytest

from support.pictures import b64, pdf, png
from tenure.errors import BadValue

pytestmark = [pytest.mark.needs("pillow"), pytest.mark.needs("pypdf")]


async def test_by_path_and_by_content(rig, tmp_path):
    session = await rig.session()
    (tmp_path / "a.pdf").write_bytes(pdf("one", "two"))
    found = await rig.call("pdf.attach", session_id=session, path="a.pdf", last_page=2)
    assert (found["filename"], found["pages"], found["pages_attached"]) == ("a.pdf", 2, 2)
    sent = b64(pdf("three"))
    found = await rig.call("pdf.attach", session_id=session, content_base64=sent, filename="b.pdf")
    assert (found["filename"], found["pages"], found["count"]) == ("b.pdf", 1, 2)


async def test_what_is_no_pdf_and_parts_of_one(rig):
    session = await rig.session()
    with pytest.raises(BadValue, match="is not a PDF"):
        await rig.call("pdf.attach", session_id=session, data=b64(png()))
    with pytest.raises(BadValue, match="Only whole PDFs"):
        await rig.call("pdf.attach", session_id=session, data=b64(pdf("a", "b")), last_page=1)
    assert (await rig.call("prompt.files.list", session_id=session))["entries"] == []


async def test_guards(rig):
    await rig.refuses_strangers("pdf.attach", data=b64(pdf("x")))
    await rig.refuses_wrong_types("pdf.attach", session_id="x")
