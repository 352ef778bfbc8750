"""read, write, edit."""

import os
import stat

import pytest

from tenure.errors import ToolError
from tenure.tools import files
from tenure.tools.files import Edit, Read, Write
from tenure.tools.paths import place_below

READ, WRITE, EDIT = Read(1_000), Write(), Edit()


async def refused(awaitable):
    with pytest.raises(ToolError) as caught:
        await awaitable
    return caught.value.message


async def test_read_gives_lines_from_an_offset(desk):
    (desk.cwd / "f").write_text("".join(f"line {n}\n" for n in range(1, 21)))
    assert (await desk.call(READ, path="f", offset=19)).text == "line 19\nline 20\n"
    page = await desk.call(READ, path="f", offset=3, limit=2)
    assert page.text == "line 3\nline 4\n\n[… more lines; go on with offset 5 …]"
    assert page.summary == "f: lines 3-4"
    assert (await desk.call(READ, path="f", limit=1, numbers=True)).text.startswith("1\tline 1\n")
    assert (
        await refused(desk.call(READ, path="f", offset=99))
        == "f has 20 lines; offset 99 is behind them."
    )


async def test_read_is_bounded_in_bytes_and_line_length(desk):
    (desk.cwd / "f").write_text("x" * 300 + "\n" + "y" * 900 + "\nz\n")
    page = await desk.call(READ, path="f")
    assert "offset 2" in page.text
    (desk.cwd / "long").write_text("x" * 100_000 + "\nend\n")
    (first, _) = (await desk.call(READ, path="long")).text.split("\n", 1)
    assert len(first) < 2_100
    assert (await desk.call(READ, path="long", offset=2)).text == "end\n"


async def test_read_of_what_is_no_text(desk):
    (desk.cwd / "bin").write_bytes(b"ab\0cd")
    (desk.cwd / "empty").write_text("")
    assert await refused(desk.call(READ, path="bin")) == "bin is a binary file of 5 bytes."
    assert (await desk.call(READ, path="empty")).text == "(empty file)"
    assert (
        await refused(desk.call(READ, path="none"))
        == "There is no 'none' below the working directory."
    )
    (desk.cwd / "latin").write_bytes(b"caf\xe9\n")
    assert (await desk.call(READ, path="latin")).text == "caf\ufffd\n"


async def test_write_creates_and_replaces_atomically_and_keeps_the_mode(desk):
    made = await desk.call(WRITE, path="a/b/f", content="one\ntwo")
    assert made.text == "Created a/b/f (2 lines, 7 bytes)."
    file = desk.cwd / "a" / "b" / "f"
    file.chmod(0o750)
    before = file.stat().st_ino
    assert (
        await desk.call(WRITE, path="a/b/f", content="")
    ).text == "Replaced a/b/f (0 lines, 0 bytes)."
    assert (file.read_text(), stat.S_IMODE(file.stat().st_mode)) == ("", 0o750)
    assert file.stat().st_ino != before
    assert os.listdir(desk.cwd / "a" / "b") == ["f"]


async def test_write_through_a_link_inside_changes_its_target(desk):
    (desk.cwd / "f").write_text("old")
    (desk.cwd / "ln").symlink_to("f")
    await desk.call(WRITE, path="ln", content="new")
    assert ((desk.cwd / "ln").is_symlink(), (desk.cwd / "f").read_text()) == (True, "new")


async def test_write_refuses_what_is_no_file(desk):
    (desk.cwd / "d").mkdir()
    for path in ("d", "."):
        assert "is there already and is no regular file" in await refused(
            desk.call(WRITE, path=path, content="")
        )
    assert "reserved name" in await refused(desk.call(WRITE, path="nul", content=""))
    assert "outside" not in await refused(desk.call(WRITE, path="f", content="\ud800"))


async def test_a_write_that_fails_changes_nothing_and_leaves_nothing(desk, monkeypatch):
    (desk.cwd / "f").write_text("old")

    def full(*args, **kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files.os, "replace", full)
    assert (
        await refused(desk.call(WRITE, path="f", content="new"))
        == "'f' was not written: the disk is full."
    )
    assert (os.listdir(desk.cwd), (desk.cwd / "f").read_text()) == (["f"], "old")


async def test_edit_replaces_exactly_one_occurrence(desk):
    file = desk.cwd / "f"
    file.write_text("a b c\n")
    file.chmod(0o640)
    assert (await desk.call(EDIT, path="f", old="b", new="B")).text == "Replaced 1 occurrence in f."
    assert (file.read_text(), stat.S_IMODE(file.stat().st_mode)) == ("a B c\n", 0o640)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("x", "y", "f does not contain 'x'; read it again."),
        ("a", "y", "f contains that text 2 times; add surrounding lines or set all=true."),
        (
            "a  a",
            "y",
            "f does not contain 'a  a'; it does with other spaces or line breaks: copy it exactly.",
        ),
        ("", "y", "old is empty; use write to create a file."),
        ("a", "a", "old and new are the same; nothing would change."),
    ],
)
async def test_edit_says_why_not(desk, old, new, said):
    (desk.cwd / "f").write_text("a a\n")
    assert await refused(desk.call(EDIT, path="f", old=old, new=new)) == said
    assert (desk.cwd / "f").read_text() == "a a\n"


async def test_edit_all_and_windows_line_ends(desk):
    file = desk.cwd / "f"
    file.write_bytes(b"a\r\nb\r\na\r\n")
    assert "2 occurrences" in (await desk.call(EDIT, path="f", old="a", new="c", all=True)).text
    await desk.call(EDIT, path="f", old="c\nb", new="x\ny")
    assert file.read_bytes() == b"x\r\ny\r\nc\r\n"


async def test_edit_refuses_binary_and_what_changed_meanwhile(desk, monkeypatch):
    (desk.cwd / "bin").write_bytes(b"\xff\xfe")
    assert (
        await refused(desk.call(EDIT, path="bin", old="a", new="b"))
        == "bin is not UTF-8 text; edit it with a command."
    )
    file = desk.cwd / "f"
    file.write_text("a")
    decoded = files._decoded

    def meanwhile(raw, path):
        file.unlink()
        file.write_text("a, changed")
        os.utime(file, ns=(1, 1))
        return decoded(raw, path)

    monkeypatch.setattr(files, "_decoded", meanwhile)
    assert (
        await refused(desk.call(EDIT, path="f", old="a", new="b"))
        == "f changed while it was edited; read it again."
    )
    assert file.read_text() == "a, changed"


async def test_wrong_arguments_are_told(desk):
    assert (await refused(desk.call(READ))).startswith("The arguments of read are wrong: ")
    assert (await refused(READ.call("{", desk.context()))).startswith(
        "The arguments of read are not JSON: "
    )


def test_replacing_replaces_a_link_itself_never_what_it_leads_to(desk):
    """What a swap after the look would meet: the rename puts the file in the link's place."""
    outside = desk.base / "outside"
    outside.write_text("safe")
    with place_below(desk.cwd, "f") as place:
        (desk.cwd / "f").symlink_to(outside)
        files.replace_file(place, b"new", None)
    assert (outside.read_text(), (desk.cwd / "f").read_text()) == ("safe", "new")
