"""Who only watches a session changes nothing of it, by whatever method."""

from __future__ import annotations

import msgspec
import pytest

from tenure.errors import ReadOnly
from tenure.protocol.methods import METHODS

CHANGES = [
    ("prompt.submit", {"text": "x"}), ("prompt.edit", {"turn_id": "t", "text": "x"}),
    ("prompt.queue.edit", {"turn_id": "t", "text": "x"}), ("prompt.queue.remove", {"turn_id": "t"}),
    ("prompt.files.remove", {"id": "1"}), ("session.steer", {"text": "x"}), ("session.undo", {}),
    ("session.compress", {}), ("session.branch", {}), ("session.title", {"title": "x"}),
    ("session.interrupt", {}), ("session.close", {}), ("session.delete", {}),
    ("approval.respond", {"choice": "once"}), ("approval.revoke", {"id": "x"}),
    ("config.set", {"key": "model", "value": "scripted:x"}), ("config.set", {"key": "yolo"}),
    ("config.set", {"key": "busy", "value": "steer"}), ("process.stop", {}),
    ("input.detect_drop", {"text": "/x.png"}), ("plan.mode", {"on": True}),
    ("plan.edit", {"text": "x"}), ("plan.approve", {}), ("plan.reject", {}),
    ("memory.add", {"text": "x"}), ("memory.accept", {"id": 1}), ("memory.reject", {"ids": [1]}),
    ("memory.remove", {"ids": [1]}), ("skills.reload", {}), ("checkpoint.restore", {}),
    ("rollback.restore", {"hash": "1"}), ("terminal.open", {}),
    ("terminal.write", {"terminal_id": "t", "text": "x"}), ("terminal.close", {"terminal_id": "t"}),
    ("terminal.resize", {"terminal_id": "t", "cols": 9}),
    ("terminal.signal", {"terminal_id": "t", "signal": "INT"}), ("delegation.pause", {"paused": True}),
    ("file.attach", {"data_url": "eA=="}), ("image.attach", {"path": "/x"}),
    ("image.attach_bytes", {"data": "eA=="}), ("image.detach", {"path": "/x"}),
    ("pdf.attach", {"data": "eA=="}), ("clipboard.paste", {}),
    ("spawn_tree.save", {"subagents": [{}]}),
    *(("slash.exec", {"command": command}) for command in (
        "/stop", "/model scripted:x", "/title x", "/attach x", "/detach", "/queue policy steer",
        "/steer x", "/plan on", "/plan approve", "/memory add x", "/skills reload", "/undo",
        "/branch", "/compress", "/rollback 1", "/agents pause",
    )),
    ("command.dispatch", {"name": "stop"}),
]  # fmt: skip
"""What is refused, each in a form that an owner could send."""
NAMES = [f"{method} {' '.join(map(str, params.values()))}".strip() for method, params in CHANGES]

ELSEWHERE = {
    "subagent.steer", "subagent.interrupt",  # once there is one: tests/unit/sessions/test_delegation.py
    "clarify.respond", "secret.respond", "sudo.respond",  # once something is asked: test_secret_respond.py
}  # fmt: skip
LOOKS = {
    "session.history", "session.status", "session.usage", "session.events.since", "config.get",
    "session.context_breakdown", "model.options", "complete.slash", "complete.path", "process.list",
    "tools.list", "prompt.queue.list", "prompt.files.list", "checkpoint.list", "checkpoint.diff",
    "rollback.list", "rollback.diff", "approval.list", "plan.get", "memory.list", "memory.search",
    "skills.list", "skills.manage", "terminal.read", "terminal.list", "subagent.list",
    "subagent.tail", "delegation.status", "file.read", "spawn_tree.list",
}  # fmt: skip
LISTENS = {"session.resume", "session.attach", "session.activate", "session.detach"}
MARKS = {"session.pin", "session.tag", "session.archive"}
"""Of people, for finding it again; they are nothing of the session's own."""


def test_of_every_method_it_is_known_whether_it_changes_a_session():
    of_a_session = {
        method
        for method, (params, *_) in METHODS.items()
        if "session_id" in {field.name for field in msgspec.structs.fields(params)}
    }
    known = {method for method, _ in CHANGES} | ELSEWHERE | LOOKS | LISTENS | MARKS
    assert of_a_session == known


@pytest.mark.parametrize(("method", "params"), CHANGES, ids=NAMES)
async def test_it_is_refused(rig, method, params):
    session = await rig.session()
    viewer, _ = await rig.gateway.client()
    await viewer.call("session.attach", session_id=session, role="viewer")
    with pytest.raises(ReadOnly, match="only watches"):
        await viewer.call(method, session_id=session, **params)
