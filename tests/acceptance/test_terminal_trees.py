"""The terminal client, unmodified: a finished tree of sub-agents is kept and looked at again."""

from __future__ import annotations

import json

from support.served import serving

TASKS = {"tasks": [{"goal": "goal one"}, {"goal": "goal two"}]}


def test_a_tree_is_kept_listed_and_loaded(place, client):
    ref = place.script(
        [{"call": {"name": "delegate", "arguments": TASKS}}],
        {"text": "Both are done."},
        on=[{"match": f"goal {n}", "step": {"text": f"found {n}"}} for n in ("one", "two")],
    )
    with serving(place, "--model", ref) as served:
        with client(served) as term:
            term.wait("ready │ script.json")
            term.enter("hand it over")
            term.wait("Both are done.", "ready │")
            term.enter("/replay list")
            shown = term.wait("Archived spawn trees", "goal one · goal two", r"[0-9]{13}-")
            term.key("C-d")
            term.wait_dead()
        (kept,) = (place.home / "spill").glob("*/trees/*")
        tree = json.loads(kept.read_bytes())
        assert {agent["goal"] for agent in tree["subagents"]} == {"goal one", "goal two"}, shown
        with client(served, resume=tree["session_id"]) as term:
            term.wait("Both are done.", "ready │ script.json")
            term.enter(f"/replay load {tree['session_id']}/{kept.name}")
            term.wait("goal one", "goal two")
