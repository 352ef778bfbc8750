"""`tenure skills`."""

from __future__ import annotations

from support.skills import write_skill
from tenure.skills.folder import read_folder


def test_install_list_show_remove(place):
    source = write_skill(place.work / "download", "brew-tea", "Makes tea.", run__sh="echo hi\n")
    (source / "run.sh").chmod(0o755)
    digest = read_folder(source).digest
    asked = place.run("skills", "install", "download/brew-tea")
    assert asked.code == 2 and "say so with --yes" in asked.err
    assert f"sha256     {digest}" in asked.out and "run.sh  program" in asked.out
    wrong = place.run("skills", "install", "download/brew-tea", "--yes", "--sha256", "00")
    assert wrong.code == 2 and f"Its hash is {digest}" in wrong.err
    done = place.run("skills", "install", "download/brew-tea/SKILL.md", "--yes", "--sha256", digest)
    assert done.code == 0 and "brew-tea is installed" in done.err, done.err
    kept = place.home / "skills" / "brew-tea"
    assert read_folder(kept).digest == digest and kept.stat().st_mode & 0o077 == 0
    listed = place.run("skills", "list")
    assert "brew-tea                 profile  Makes tea." in listed.out and digest in listed.out
    (row,) = place.run("skills", "list", "--json").rows()
    assert (row["name"], row["digest"], row["problem"]) == ("brew-tea", digest, "")
    assert "Heat the water first." in place.run("skills", "show", "brew-tea").out
    again = place.run("skills", "install", "download/brew-tea", "--yes")
    assert again.code != 0 and "--replace" in again.err
    (source / "SKILL.md").write_text("---\nname: brew-tea\ndescription: Better.\n---\n")
    place.run("skills", "install", "download/brew-tea", "--yes", "--replace")
    assert "Better." in place.run("skills", "list").out
    assert sorted(p.name for p in (place.home / "skills").iterdir()) == ["brew-tea"]
    load = {"call": {"name": "skill", "arguments": {"name": "brew-tea", "file": "run.sh"}}}
    ran = place.run("run", "--model", place.script([load], {"text": "Hi."}), "hi")
    assert ran.code == 0 and "  | echo hi" in place.run("sessions", "show", "last").out
    assert place.run("skills", "remove", "../skills", "--yes").code == 2
    assert place.run("skills", "remove", "brew-tea", "--yes").code == 0
    assert not kept.exists() and place.run("skills", "show", "brew-tea").code == 2


def test_links_are_not_installed(place):
    source = write_skill(place.work / "download")
    (source / "keys").symlink_to("/etc/passwd")
    ran = place.run("skills", "install", "download/brew-tea", "--yes")
    assert ran.code == 2 and "is a link" in ran.err and not (place.home / "skills").exists()


def test_a_projects_skill_counts_after_consent_until_it_changes(place):
    path = write_skill(place.work / ".agents" / "skills")
    assert "not used: It waits for consent" in place.run("skills", "list").out
    asked = place.run("skills", "trust")
    assert asked.code == 2 and "brew-tea" in asked.out and "--yes" in asked.err
    assert "The skill brew-tea is not used: It waits" in place.run("doctor").out
    done = place.run("skills", "trust", "--yes")
    assert done.code == 0 and "trusted, as it is now: brew-tea" in done.err
    assert "project  Makes tea." in place.run("skills", "list").out
    assert (
        place.run("skills", "trust", "--yes").err == "No skill of this project waits for consent.\n"
    )
    (path / "more.md").touch()
    assert "not used: It has changed since consent" in place.run("skills", "list").out
    assert place.run("skills", "trust", ".agents/skills/brew-tea", "--yes").code == 0
    assert place.run("skills", "distrust").code == 0
    assert "waits for consent" in place.run("skills", "list").out
    assert place.run("skills", "distrust").code == 1
