"""list, glob, search."""

import shutil

import pytest

from tenure.errors import ToolError
from tenure.processes.spawn import Spawner
from tenure.tools import find
from tenure.tools.find import Glob, List, Search, pattern_matcher

SEARCH = Search(2_000)


@pytest.fixture
def tree(desk):
    for path in (
        "a.py",
        "src/b.py",
        "src/deep/c.py",
        "src/d.txt",
        ".git/e.py",
        "node_modules/x/f.py",
    ):
        file = desk.cwd / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"name = '{path}'\nTODO fix\n")
    (desk.cwd / "out").symlink_to(desk.base)
    (desk.base / "secret.py").write_text("TODO secret\n")
    return desk


async def test_list_marks_folders_and_links(tree):
    assert (
        await tree.call(List())
    ).text == "1 file, 3 folders, 1 link:\n.git/\na.py\nnode_modules/\nout@\nsrc/"
    assert (await tree.call(List(), path="src")).text == "2 files, 1 folder:\nb.py\nd.txt\ndeep/"
    (tree.cwd / "empty").mkdir()
    assert (await tree.call(List(), path="empty")).text == "(empty folder)"
    with pytest.raises(ToolError, match="leads out"):
        await tree.call(List(), path="out")


async def test_long_lists_are_cut(desk, monkeypatch):
    monkeypatch.setattr(find, "ENTRIES_MAX", 3)
    for number in range(5):
        (desk.cwd / f"f{number}").touch()
    assert (await desk.call(List())).text == "5 files:\nf0\nf1\nf2\n[… 2 more …]"


@pytest.mark.parametrize(
    ("pattern", "path", "expected"),
    [
        ("*.py", ".", ["a.py", "src/b.py", "src/deep/c.py"]),
        ("**/*.py", ".", ["a.py", "src/b.py", "src/deep/c.py"]),
        ("src/*.py", ".", ["src/b.py"]),
        ("src/**", ".", ["src/b.py", "src/d.txt", "src/deep/c.py"]),
        ("?.txt", ".", ["src/d.txt"]),
        ("*.py", "src", ["src/b.py", "src/deep/c.py"]),
        ("*.none", ".", ["(no files match)"]),
        ("secret.py", ".", ["(no files match)"]),
    ],
)
async def test_glob(tree, pattern, path, expected):
    assert (await tree.call(Glob(), pattern=pattern, path=path)).text.split("\n") == expected


def test_a_glob_cannot_take_for_ever():
    with pytest.raises(ToolError):
        pattern_matcher("*a" * 40)
    assert pattern_matcher("a+(b").fullmatch("a+(b")


async def test_glob_is_bounded(tree, monkeypatch):
    monkeypatch.setattr(find, "SCANNED_MAX", 2)
    assert "larger than was searched" in (await tree.call(Glob(), pattern="*")).text


def without_ripgrep(tree, folder):
    """A PATH on which grep is the only one of the two."""
    folder.mkdir()
    (folder / "grep").symlink_to(shutil.which("grep"))
    tree.spawner = Spawner(instance="t", environ={"PATH": str(folder)}, clock=tree.clock)


@pytest.mark.parametrize("program", ["rg", "grep"])
async def test_search_finds_lines_and_follows_no_link(tree, program, tmp_path_factory):
    if program == "grep":
        without_ripgrep(tree, tmp_path_factory.mktemp("bin") / "only")
    else:
        assert shutil.which("rg"), "ripgrep is missing: apt-get install ripgrep"
    text = (await tree.call(SEARCH, pattern="TODO|nothing")).text
    assert sorted(line.removeprefix("./") for line in text.splitlines()) == [
        "a.py:2:TODO fix", "src/b.py:2:TODO fix", "src/d.txt:2:TODO fix", "src/deep/c.py:2:TODO fix",
    ]  # fmt: skip
    assert (
        (await tree.call(SEARCH, pattern="TODO", path="src", glob="*.txt"))
        .text.strip()
        .endswith("src/d.txt:2:TODO fix")
    )
    assert (await tree.call(SEARCH, pattern="TODO", path="a.py")).text == "a.py:2:TODO fix\n"
    assert (await tree.call(SEARCH, pattern="absent")).text == "(no matches)"
    assert tree.leases() == []


async def test_search_is_bounded_and_says_so(desk):
    (desk.cwd / "f").write_text("match me\n" * 40)
    (desk.cwd / "g").write_text("match me\n" * 40)
    result = await desk.call(Search(200), pattern="match")
    assert len(result.text) < 300
    assert result.text.endswith("[… more matches; narrow the search …]")


async def test_a_wrong_pattern_and_a_wrong_place_are_told(desk):
    with pytest.raises(ToolError, match="is the pattern an extended regular expression"):
        await desk.call(SEARCH, pattern="(")
    with pytest.raises(ToolError, match="There is no 'none'"):
        await desk.call(SEARCH, pattern="x", path="none")
    with pytest.raises(ToolError, match="climbs"):
        await desk.call(SEARCH, pattern="x", path="../")
    assert (await desk.call(SEARCH, pattern="-x")).text == "(no matches)"


async def test_a_list_may_be_kept_short(desk):
    for number in range(5):
        (desk.cwd / f"f{number}").touch()
    assert (await desk.call(List(2))).text == "5 files:\nf0\nf1\n[… 3 more …]"
