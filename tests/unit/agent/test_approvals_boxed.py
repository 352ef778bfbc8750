"""What a sandbox that confines commands and files leaves to be asked."""

import pytest

from tenure.agent.approvals import Allow, Ask, Call, Deny, decide
from tenure.agent.ports import Policy
from tenure.config import ApprovalRule
from tenure.tools.base import Effect

CWD = "/home/user/project"


def judge(tool, *rules, boxed=True, grants=(), yes=False, **arguments):
    effect = Effect.WRITE if tool in {"write", "edit"} else Effect.EXECUTE
    policy = Policy(rules=rules, grants=tuple(grants), yes=yes, boxed=boxed)
    return decide(policy, Call("c1", tool, effect, arguments, CWD))


def rule(decision, tool="*", **match):
    return ApprovalRule(decision=decision, tool=tool, **match)


CALLS = [
    ("shell", {"command": "make install > log; rm -rf build"}),
    ("shell", {"command": "cat <<< $(evil"}),
    ("background", {"action": "start", "command": "npm run dev"}),
    ("background", {"action": "write", "id": "b1", "text": "y"}),
    ("terminal", {"action": "open"}),
    ("terminal", {"action": "open", "command": "vim f"}),
    ("terminal", {"action": "write", "id": "t1", "text": "rm -rf *\n"}),
    ("write", {"path": "src/a.py"}),
    ("edit", {"path": "src/a.py"}),
]


@pytest.mark.parametrize(("tool", "arguments"), CALLS)
def test_in_a_box_nothing_asks_without_one_the_rules_do(tool, arguments):
    assert judge(tool, **arguments) == Allow()
    assert isinstance(judge(tool, boxed=False, **arguments), Ask)


def test_what_a_box_does_not_confine_is_asked_as_before():
    assert isinstance(judge("fetch", url="http://example.org"), Ask)


@pytest.mark.parametrize("command", ["ls", "curl example.org"])
def test_leaving_it_for_the_network_asks(command):
    verdict = judge("shell", command=command, network=True)
    assert isinstance(verdict, Ask) and "network" in verdict.question.reason
    assert verdict.question.grants == (), "a yes for longer would hold without a box, too"
    verdict = judge("background", action="start", command=command, network=True)
    assert isinstance(verdict, Ask)
    assert isinstance(judge("terminal", action="open", network=True), Ask)


def test_leaving_it_may_be_allowed_for_longer():
    grant = rule("allow", "shell", command="pip install *")
    assert judge("shell", grants=[grant], command="pip install x", network=True) == Allow()
    assert judge("shell", yes=True, command="pip install x", network=True) == Allow()


def test_paths_outside_are_refused():
    assert isinstance(judge("write", path="../x"), Deny)
    assert isinstance(judge("write", path="/etc/x"), Deny)


def test_a_deny_beats_the_box():
    deny = rule("deny", command="git push*")
    assert isinstance(judge("shell", deny, command="git push origin"), Deny)
    assert isinstance(judge("terminal", deny, action="open", command="git push"), Deny)
    assert isinstance(judge("shell", rule("deny", "shell"), command="ls"), Deny)
    assert isinstance(judge("write", rule("deny", "write", path="lock"), path="lock"), Deny)
    assert judge("shell", deny, command="git status; make") == Allow()


def test_what_a_deny_may_mean_is_asked_even_in_a_box():
    deny = rule("deny", command="git push*")
    assert isinstance(judge("shell", deny, command="cat <<< $(evil"), Ask)
    for yes in (False, True):
        typed = judge("terminal", deny, yes=yes, action="write", id="t1", text="git push\n")
        assert isinstance(typed, Ask)
    secret = rule("deny", "*", path="secrets/*")
    assert isinstance(judge("shell", secret, command="make"), Ask)


def test_an_ask_rule_asks_in_a_box_too():
    ask = rule("ask", "shell", command="git push*")
    assert isinstance(judge("shell", ask, command="git push"), Ask)
    assert judge("shell", ask, command="make") == Allow()
    assert isinstance(judge("shell", rule("ask", "shell"), command="make"), Ask)
    assert isinstance(judge("write", rule("ask", "write"), path="x"), Ask)
