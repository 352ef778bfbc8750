"""The terminal client that nobody here wrote: files given back, questions, secrets, a late client."""

from __future__ import annotations

import re

from support.served import serving

SESSION = re.compile(r"\d{8}_\d{6}_[0-9a-f]{8}")
SECRET = "correct-horse-battery"


def everything_in(folder) -> bytes:
    return b"".join(p.read_bytes() for p in folder.rglob("*") if p.is_file())


def test_rollback_clarify_and_a_secret(place, client):
    (place.work / "notes.txt").write_text("my notes\n")
    (place.work / "lib").mkdir()
    (place.work / "lib" / "code.py").write_text("print(1)\n")
    damage = "rm -rf lib && echo other > notes.txt"
    ref = place.script(
        {"call": {"name": "shell", "arguments": {"command": damage}}},
        {"text": "All tidy."},
        {"call": {"name": "clarify", "arguments": {
            "question": "Which colour?", "choices": ["red", "blue"]}}},
        {"text": "Blue it is."},
        {"call": {"name": "shell", "arguments": {
            "command": 'echo "key=$DEPLOY_KEY" && printf %s "$DEPLOY_KEY" | wc -c',
            "secrets": ["DEPLOY_KEY"]}}},
        {"text": "Deployed."},
    )  # fmt: skip
    with serving(place, "--model", ref) as served, client(served) as term:
        term.wait("ready │ script.json")
        term.enter("tidy up")
        term.wait("approval required")
        term.key("Enter")
        term.wait("All tidy.", "✓")
        assert not (place.work / "lib").exists()

        term.enter("/rollback")
        shown = term.wait("Rollback checkpoints", r"1\. [0-9a-f]{10}", "tidy up")
        name = re.search(r"1\. ([0-9a-f]{10})", shown).group(1)
        term.enter(f"/rollback diff {name}")
        term.wait("Rollback diff", "deleted lib/code.py")
        term.key("q")
        term.wait("│ script.json", absent="Rollback diff")
        term.enter(f"/rollback {name}")
        term.wait("rollback restored workspace: 3 restored, 0 removed")
        assert (place.work / "lib" / "code.py").read_text() == "print(1)\n"
        assert (place.work / "notes.txt").read_text() == "my notes\n"

        term.enter("paint it")
        term.wait("Which colour\\?", "red", "blue")
        term.key("2")
        shown = term.wait("Blue it is.", "✓")
        assert "timed out" not in shown

        term.enter("deploy")
        term.wait("approval required", "Allow once")
        term.key("1")
        term.wait("DEPLOY_KEY for: echo", absent="approval required")
        term.enter(SECRET, shown="*" * len(SECRET))
        term.wait("Deployed.", "✓")
        assert SECRET not in term.history()
        assert served.stop() == 0
    assert SECRET.encode() not in everything_in(place.home), "not in the database, logs or outputs"
    told = place.run("sessions", "show", "last").out
    assert "key=***" in told and str(len(SECRET)) in told and "blue" in told


def test_a_late_client_is_shown_what_waits(place, client):
    ref = place.script(
        {"call": {"name": "shell", "arguments": {"command": "touch made.txt"}}}, {"text": "Made."}
    )
    with serving(place, "--model", ref) as served:
        with client(served) as term:
            term.wait("ready │ script.json")
            session = SESSION.search(term.screen()).group()
            term.enter("make it")
            term.wait("approval required", "touch made.txt")
        with client(served, resume=session) as term:  # the first one is gone
            term.wait("approval required", "touch made.txt")
            term.key("Enter")
            term.wait("Made.", absent="approval required")
            assert (place.work / "made.txt").exists()
