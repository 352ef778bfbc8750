"""Which skills count, and what the system text says of them."""

from __future__ import annotations

import pytest

from support.skills import trust, write_skill
from tenure.errors import BadValue, NotFound
from tenure.skills import shelf as module
from tenure.skills.shelf import CATALOG_CHARS_MAX, Entry, Shelf, catalog, waiting


@pytest.fixture
def root(tmp_path):
    return tmp_path / "home"


@pytest.fixture
def work(tmp_path):
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


def names(entries):
    return [entry.name for entry in entries if not entry.problem]


def test_the_profiles_count_and_a_projects_only_after_consent_to_that_content(root, work):
    write_skill(root / "skills", "mine")
    path = write_skill(work / ".agents" / "skills", "theirs", scripts_in_run="rm -rf")
    shelf = Shelf(root)
    mine, theirs = shelf.find([work])
    assert (mine.name, mine.problem, theirs.name) == ("mine", "", "theirs")
    assert theirs.description == "" and "waits for consent" in theirs.problem
    assert "not used: It waits for consent" in waiting([mine, theirs])
    with pytest.raises(BadValue, match="theirs cannot be used: It waits for consent"):
        shelf.load("theirs", [work])
    trust(root, path)
    assert names(shelf.find([work])) == ["mine", "theirs"]
    assert shelf.load("theirs", [work]).files["scripts/run"].content == b"rm -rf"
    (path / "scripts" / "run").write_text("rm -rf /")
    assert names(shelf.find([work])) == ["mine"]
    with pytest.raises(BadValue, match="has changed since consent"):
        shelf.load("theirs", [work])
    assert names(shelf.find([])) == ["mine"], "where no project counts"


def test_what_is_not_consented_to_is_not_even_read(root, work, monkeypatch):
    write_skill(work / ".tenure" / "skills")
    monkeypatch.setattr(module, "read_folder", None)
    assert len(Shelf(root).find([work])) == 1


def test_a_damaged_file_of_consents_allows_nothing(root, work):
    trust(root, write_skill(work / ".agents" / "skills"))
    assert names(Shelf(root).find([work])) == ["brew-tea"]
    Shelf(root).consents.path.write_text("{")
    assert names(Shelf(root).find([work])) == []


def test_one_of_a_name_and_the_nearest_wins(root, work):
    inner = work / "sub"
    for place in (
        work / ".agents" / "skills",
        inner / ".claude" / "skills",
        inner / ".agents" / "skills",
    ):
        trust(root, write_skill(place, "tea", f"From {place.parent.parent.name}."))
    found = Shelf(root).find([inner, work])
    (tea,) = [entry for entry in found if not entry.problem]
    assert tea.path == str(inner / ".agents" / "skills" / "tea")
    assert len(found) == 3 and all("another one of that name" in e.problem for e in found[1:])
    assert Shelf(root).load("tea", [inner, work]).path == inner / ".agents" / "skills" / "tea"
    write_skill(root / "skills", "tea")
    assert Shelf(root).load("tea", [inner, work]).path == root / "skills" / "tea"


def test_places_and_folders_behind_links_are_none_of_a_projects(root, work, tmp_path):
    far = write_skill(tmp_path / "far" / "skills")
    (work / ".agents").symlink_to(tmp_path / "far")
    (work / ".tenure").mkdir()
    (work / ".tenure" / "skills").symlink_to(tmp_path / "far" / "skills")
    (work / ".claude" / "skills").mkdir(parents=True)
    (work / ".claude" / "skills" / "brew-tea").symlink_to(far)
    trust(root, far)
    assert names(Shelf(root).find([work])) == []
    (root / "skills").symlink_to(tmp_path / "far" / "skills")
    assert names(Shelf(root).find([work])) == ["brew-tea"], "one's own folder may be anywhere"


def test_a_skill_is_called_like_its_folder(root):
    write_skill(root / "skills", "tea").rename(root / "skills" / "coffee")
    (entry,) = Shelf(root).find([])
    assert "calls itself tea, but its folder coffee" in entry.problem
    with pytest.raises(NotFound):
        Shelf(root).load("tea", [])
    with pytest.raises(NotFound, match=r"'\.\./skills/coffee'"):
        Shelf(root).load("../skills/coffee", [])


def test_too_many_are_told_of(root, monkeypatch):
    monkeypatch.setattr(module, "SKILLS_MAX", 2)
    for name in ("a", "b"):
        write_skill(root / "skills", name)
    work = root / "work"
    trust(root, write_skill(work / ".agents" / "skills", "c"))
    entries = Shelf(root).find([work])
    assert names(entries) == ["a", "b"] and "more than 2" in entries[-1].problem


def test_a_look_tells_when_something_has_changed(root, work):
    shelf = Shelf(root)
    seen = [shelf.look([work])]
    assert seen == [()]

    def again():
        seen.append(shelf.look([work]))
        assert seen[-1] != seen[-2]

    path = write_skill(work / ".agents" / "skills")
    again()
    (path / "SKILL.md").write_text("---\nname: brew-tea\ndescription: Better tea.\n---\n")
    again()
    trust(root, path)
    again()
    write_skill(root / "skills", "other")
    again()
    assert shelf.look([work]) == seen[-1]


def entry(n, chars):
    return Entry(f"skill-{n:02}", "x" * chars, "profile", "/p", "d")


def test_the_catalog_is_short_and_bounded():
    assert catalog([]) == "" == catalog([Entry("a", "", "project", "/p", problem="no")])
    text = catalog([Entry("a", "Makes a.", "profile", "/p", "d")])
    assert text.endswith("follow it.\n- a: Makes a.")
    many = catalog([entry(n, 1000) for n in range(30)])
    assert len(many) < CATALOG_CHARS_MAX and many.count("…") == 30
    most = catalog([entry(n, 1000) for n in range(64)])
    assert len(most) < CATALOG_CHARS_MAX + 1_500 and "skill-63" in most and " more: " in most
