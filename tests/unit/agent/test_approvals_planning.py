"""Plan mode: what may change something is denied, whatever else would allow it."""

import pytest

from tenure.agent.approvals import Allow, Ask, Call, Deny, decide
from tenure.agent.ports import Policy
from tenure.config import ApprovalRule
from tenure.tools.base import Effect

CWD = "/home/user/project"
EVERYTHING = ApprovalRule(decision="allow", tool="*")
EFFECTS = {
    "write": Effect.WRITE, "edit": Effect.WRITE, "browser_save": Effect.WRITE,
    "read": Effect.READ, "delegate": Effect.READ, "plan": Effect.READ, "todo": Effect.READ,
    "browser": Effect.NETWORK, "web_fetch": Effect.NETWORK,
}  # fmt: skip


def judge(tool, *rules, **arguments):
    """With every other yes that there is."""
    policy = Policy(rules=rules, grants=(EVERYTHING,), yes=True, boxed=True, planning=True)
    effect = EFFECTS.get(tool, Effect.EXECUTE)
    return decide(policy, Call("c1", tool, effect, arguments, CWD))


CHANGES = [
    ("write", {"path": "a"}),
    ("edit", {"path": "a"}),
    ("browser_save", {"path": "a"}),
    ("shell", {"command": "touch a"}),
    ("shell", {"command": "ls && touch a"}),
    ("shell", {"command": "ls > a"}),
    ("shell", {"command": "cat a; python x.py"}),
    ("shell", {"command": "bash -c 'rm a'"}),
    ("shell", {"command": "bash -c"}),
    ("shell", {"command": "cat <<< $(evil"}),
    ("shell", {"command": "X=1"}),
    ("shell", {"command": "cd sub && git log"}),
    ("shell", {"command": "ls", "network": True}),
    ("shell", {"command": ""}),
    ("background", {"action": "start", "command": "ls"}),
    ("background", {"action": "stop", "id": "b1"}),
    ("background", {"action": "write", "id": "b1", "text": "y"}),
    ("terminal", {"action": "open"}),
    ("terminal", {"action": "write", "id": "t1", "text": "rm\n"}),
    ("terminal", {"action": "signal", "id": "t1"}),
    ("terminal", {"action": "close", "id": "t1"}),
    ("terminal", {}),
    ("browser", {"action": "click", "ref": "e1"}),
    ("browser", {"action": "type", "ref": "e1", "text": "x"}),
    ("browser", {"action": "press", "text": "Enter"}),
    ("browser", {"action": "select", "ref": "e1"}),
    ("server__tool", {"anything": 1}),
]


@pytest.mark.parametrize(("tool", "arguments"), CHANGES)
def test_nothing_that_changes_may_run(tool, arguments):
    verdict = judge(tool, **arguments)
    assert isinstance(verdict, Deny) and "Plan mode is on" in verdict.reason


LOOKS = [
    ("read", {"path": "a"}),
    ("shell", {"command": "ls -la | grep x && git diff"}),
    ("shell", {"command": "bash -c 'cat a'"}),
    ("background", {"action": "list"}),
    ("background", {"action": "read", "id": "b1"}),
    ("terminal", {"action": "read", "id": "t1"}),
    ("browser", {"action": "navigate", "url": "https://example.org"}),
    ("browser", {"action": "snapshot"}),
    ("web_fetch", {"url": "https://example.org"}),
    ("delegate", {}),
    ("plan", {"plan": "x"}),
    ("todo", {}),
]


@pytest.mark.parametrize(("tool", "arguments"), LOOKS)
def test_what_looks_is_judged_as_ever(tool, arguments):
    assert judge(tool, **arguments) == Allow()
    asked = Policy(rules=(ApprovalRule(decision="ask", tool=tool),), planning=True)
    call = Call("c1", tool, EFFECTS.get(tool, Effect.EXECUTE), arguments, CWD)
    assert isinstance(decide(asked, call), Ask)
    assert isinstance(judge(tool, ApprovalRule(decision="deny", tool=tool), **arguments), Deny)
