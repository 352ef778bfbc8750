"""What a script keeps of what it was asked."""

from __future__ import annotations

import json

from tenure.models.base import ModelRequest
from tenure.models.script import REQUESTS_MAX, Script


def test_a_files_script_keeps_no_requests_and_counts_them(tmp_path):
    path = tmp_path / "script.json"
    path.write_text(json.dumps({"steps": [{"text": "hi"}], "loop": True}))
    script = Script.load(path)
    for _ in range(3):
        script.take(ModelRequest(system="", messages=(), session_id="s"))
    assert script.requests == []
    assert script.asked == 3


def test_calls_are_numbered_beyond_what_is_kept():
    script = Script([{"text": "hi"}], loop=True)
    for _ in range(REQUESTS_MAX + 2):
        script.take(ModelRequest(system="", messages=(), session_id="s"))
    assert len(script.requests) == REQUESTS_MAX
    assert script.asked == REQUESTS_MAX + 2
