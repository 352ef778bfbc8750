"""Nothing outside the working directory is ever opened."""

import contextlib
import os

import pytest

from tenure.errors import ToolError
from tenure.tools import paths
from tenure.tools.paths import check_new_name, open_file, open_folder, pieces_below, place_below


@pytest.fixture
def root(tmp_path):
    root = tmp_path / "work"
    (root / "a" / "b").mkdir(parents=True)
    (root / "a" / "b" / "f.txt").write_text("inside")
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "f.txt").write_text("secret")
    return root


def content(root, path):
    with place_below(root, path) as place:
        fd = open_file(place, path)
    with open(fd) as file:
        return file.read()


@pytest.mark.parametrize("path", ["a/b/f.txt", "./a//b/./f.txt", "{root}/a/b/f.txt"])
def test_spellings_of_a_file_inside(root, path):
    assert content(root, path.format(root=root)) == "inside"


@pytest.mark.parametrize(
    "path",
    ["../secret", "a/../../secret", "{root}/../secret", "/etc/passwd", "{root}x", "~/x", "a/b/..",
     "a\0b", "x" * 5_000],
)  # fmt: skip
def test_what_cannot_be_below_is_refused_by_its_spelling(root, path):
    with pytest.raises(ToolError) as caught:
        pieces_below(root, path.format(root=root))
    assert caught.value.message.count(". ") == 0


def link(root, name, target):
    (root / name).symlink_to(target)


def test_links_inside_are_followed(root):
    link(root, "rel", "a/b/f.txt")
    link(root, "a/up", "../a/b")
    link(root, "abs", root / "a" / "b" / "f.txt")
    link(root, "chain", "rel")
    link(root, "a/b/self", ".")
    link(root, "a/b/top", "../..")
    for path in ("rel", "a/up/f.txt", "abs", "chain", "a/b/self/f.txt", "a/b/top/a/b/f.txt"):
        assert content(root, path) == "inside"


@pytest.mark.parametrize(
    ("target", "path"),
    [
        ("../secret", "ln"),
        ("../out", "ln/f.txt"),
        ("a/../../secret", "ln"),
        ("{tmp}/secret", "ln"),
        ("/", "ln/etc/passwd"),
        ("..", "ln/secret"),
        ("{root}/../secret", "ln"),
    ],
)
def test_links_that_lead_out_are_refused(root, target, path):
    link(root, "ln", target.format(tmp=root.parent, root=root))
    with pytest.raises(ToolError, match="leads out of the working directory"):
        content(root, path)


def test_links_in_a_circle_end(root):
    link(root, "x", "y")
    link(root, "y", "x")
    with pytest.raises(ToolError, match="too many links"):
        content(root, "x")


def test_the_root_and_folders_reached_by_links(root):
    link(root, "a/back", "..")
    link(root, "a/here", "b/..")
    for path, name, shown in (
        (".", ".", "."),
        ("", ".", "."),
        ("a/back", ".", "."),
        ("a/here", "a", "a"),
    ):
        with place_below(root, path) as place:
            assert (place.name, place.shown) == (name, shown)
            os.close(open_folder(place, path))


@pytest.mark.parametrize("swapped", ["a", "a/b", "a/b/f.txt"])
def test_a_swap_for_a_link_between_check_and_use_leads_nowhere(root, swapped, monkeypatch):
    """The attacker acts after every look at a link, and wins nothing but an error or the old file."""
    looked = os.readlink

    def swap(name, *, dir_fd):
        try:
            return looked(name, dir_fd=dir_fd)
        finally:
            if name == swapped.rpartition("/")[2] and not (root / swapped).is_symlink():
                os.rename(root / swapped, root.parent / "moved")
                outside = root.parent / ("secret" if name == "f.txt" else "out")
                (root / swapped).symlink_to(outside)

    monkeypatch.setattr(paths.os, "readlink", swap)
    with contextlib.suppress(ToolError):
        assert content(root, "a/b/f.txt") == "inside"


def test_the_rename_of_an_open_folder_changes_nothing(root):
    with place_below(root, "a/b/f.txt") as place:
        os.rename(root / "a", root.parent / "gone")
        (root / "a").symlink_to(root.parent / "out")
        with open(open_file(place, "f")) as file:
            assert file.read() == "inside"


def test_only_regular_files_are_opened(root):
    os.mkfifo(root / "pipe")
    for name, said in (
        ("pipe", "no regular file"),
        ("a", "a folder; use list"),
        ("none", "no 'none'"),
    ):
        with pytest.raises(ToolError, match=said):
            content(root, name)
    with pytest.raises(ToolError, match="is not a folder"):
        content(root, "a/b/f.txt/x")


def test_missing_folders_are_made_inside_only(root):
    with place_below(root, "n/e/w", make_parents=True) as place:
        assert place.shown == "n/e/w"
    assert (root / "n" / "e").is_dir()
    link(root, "ln", "../new")
    with pytest.raises(ToolError), place_below(root, "ln/x/y", make_parents=True):
        pass
    assert not (root.parent / "new").exists()


def test_nothing_is_made_on_a_way_that_turns_back(root):
    link(root, "ln", "new/../a")
    with pytest.raises(ToolError, match="There is no"), place_below(root, "ln", make_parents=True):
        pass
    assert not (root / "new").exists()


@pytest.mark.parametrize("name", ["con", "NUL", "aux", "Com1", "lpt9"])
def test_reserved_names_are_not_created(name):
    with pytest.raises(ToolError, match="reserved name"):
        check_new_name(name)
    check_new_name(f"{name}.txt")
