"""A skill's folder: all of it, or a sentence why not."""

from __future__ import annotations

import os

import pytest

from support.skills import write_skill
from tenure.errors import BadValue, NotFound
from tenure.skills import folder as module
from tenure.skills.folder import read_folder


def test_the_hash_is_of_names_marks_and_contents(tmp_path):
    path = write_skill(tmp_path, scripts_in_a__py="print(1)\n", b__md="b")
    first = read_folder(path)
    assert list(first.files) == ["SKILL.md", "b.md", "scripts/a.py"]
    assert first.size == sum(p.stat().st_size for p in path.rglob("*") if p.is_file())
    (path / ".git").mkdir()
    (path / ".git" / "HEAD").write_text("x")
    assert read_folder(path).digest == first.digest, "what is no part of it"
    digests = {first.digest}
    (path / "scripts" / "a.py").chmod(0o755)
    digests.add(read_folder(path).digest)
    (path / "b.md").write_text("c")
    digests.add(read_folder(path).digest)
    (path / "b.md").rename(path / "c.md")
    digests.add(read_folder(path).digest)
    (path / "empty").touch()
    digests.add(read_folder(path).digest)
    assert len(digests) == 5


def link_to_file(path, outside):
    (path / "x").symlink_to(outside)


def link_to_folder(path, outside):
    (path / "x").symlink_to(outside.parent)


def pipe(path, _):
    os.mkfifo(path / "x")


def hidden_name(path, _):
    (path / "x\x1b[2J").touch()


@pytest.mark.parametrize("make", [link_to_file, link_to_folder, pipe, hidden_name])
def test_what_leads_out_or_is_no_file_is_refused(tmp_path, make):
    outside = tmp_path / "secret"
    outside.write_text("s")
    path = write_skill(tmp_path / "skills")
    make(path, outside)
    with pytest.raises(BadValue):
        read_folder(path)


def test_a_link_in_place_of_the_folder_is_refused(tmp_path):
    path = write_skill(tmp_path / "elsewhere")
    (tmp_path / "brew-tea").symlink_to(path)
    with pytest.raises(BadValue, match="no folder that can be read"):
        read_folder(tmp_path / "brew-tea")


def test_limits(tmp_path, monkeypatch):
    path = write_skill(tmp_path, a="1", b="2")
    monkeypatch.setattr(module, "FILES_MAX", 2)
    with pytest.raises(BadValue, match="one file too many"):
        read_folder(path)
    monkeypatch.setattr(module, "FILES_MAX", 200)
    monkeypatch.setattr(module, "BYTES_MAX", 70)
    with pytest.raises(BadValue, match="more than 70 bytes"):
        read_folder(path)
    monkeypatch.setattr(module, "BYTES_MAX", 5_000_000)
    deep = path.joinpath(*"cdefghij")
    deep.mkdir(parents=True)
    with pytest.raises(BadValue, match="lies deeper than 6"):
        read_folder(path)


def test_nothing_there(tmp_path):
    with pytest.raises(NotFound, match="There is no folder"):
        read_folder(tmp_path / "none")
    (tmp_path / "some").mkdir()
    (tmp_path / "some" / "link").symlink_to("/")  # of no account in what is no skill
    with pytest.raises(NotFound, match=r"no SKILL\.md"):
        read_folder(tmp_path / "some")
