"""`tenure memory`, and notes in `run`."""

from __future__ import annotations


def test_a_note_is_proposed_accepted_used_and_gone(place):
    call = {
        "call": {
            "name": "memory",
            "arguments": {"action": "propose", "text": "Ada likes zanzibar tea."},
        }
    }
    ran = place.run("run", "--model", place.script(call, {"text": "Noted."}), "remember it")
    assert ran.code == 0
    assert (
        "to be remembered? (tenure memory accept 1 or reject 1): Ada likes zanzibar tea." in ran.err
    )
    listed = place.run("memory", "list")
    assert "   1  Ada likes zanzibar tea.  (proposed)" in listed.out
    assert "today, by an agent, session 20" in listed.out
    assert place.run("memory", "accept", "1").err == "1 counts: Ada likes zanzibar tea.\n"
    assert place.run("memory", "list", "--proposed").err == "Nothing waits.\n"
    assert place.run("memory", "add", "Tabs,", "never", "spaces.").err == "remembered as 2\n"
    assert place.run("memory", "search", "zanzi*").out.startswith("   1  Ada")
    assert place.run("memory", "search", "nowhere").code == 1
    rows = place.run("memory", "list", "--json").rows()
    assert [(row["id"], row["by"], row["state"]) for row in rows] == [
        (1, "agent", "accepted"), (2, "person", "accepted"),
    ]  # fmt: skip
    search = {"call": {"name": "memory", "arguments": {"action": "search", "text": "tabs"}}}
    place.run("run", "--model", place.script(search, {"text": "So."}), "what do I like?")
    assert "  | - Tabs, never spaces. (" in place.run("sessions", "show", "last").out
    asked = place.run("memory", "remove", "2")
    assert asked.code == 2 and "--yes" in asked.err
    assert place.run("memory", "remove", "2", "--yes").err == "removed 2\n"
    assert not any(b"never spaces" in p.read_bytes() for p in place.home.glob("memories*"))
    missing = place.run("memory", "remove", "99")
    assert missing.code == 2 and "There is no such note: 99" in missing.err, "nothing is asked"
    wrong = place.run("memory", "remove", "x")
    assert wrong.code == 2 and "'N…': it is a whole number; " in wrong.sentence
    missing = place.run("memory", "reject", "1")
    assert missing.code == 2 and "There is no such note: 1" in missing.err, "it counts already"
    wrong = place.run("memory", "accept", "1", "2", "--text", "x")
    assert wrong.code == 2 and "--text is for one note" in wrong.err


def test_profiles_remember_for_themselves(place):
    place.run("profile", "create", "work")
    assert place.run("memory", "add", "--profile", "work", "Ties.").code == 0
    assert place.run("memory", "list").err == "Nothing is remembered.\n"
    assert "Ties." in place.run("memory", "list", "--profile", "work").out
