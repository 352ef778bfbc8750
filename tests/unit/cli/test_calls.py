"""Calls and sub-agents in single lines."""

from __future__ import annotations

import io
import json

import pytest
from rich.console import Console

from tenure.cli.ask import keys_of
from tenure.cli.calls import Calls, change_of, sub_agent
from tenure.cli.run import _Plain
from tenure.cli.show import Show
from tenure.protocol.messages import EventParams


def start(number, name="read", context="a.txt"):
    return {"tool_id": str(number), "name": name, "context": context}


def end(number, name="read", summary="3 lines", outcome="done"):
    return {
        "tool_id": str(number), "name": name, "summary": summary, "outcome": outcome,
        "is_error": False,
    }  # fmt: skip


AGENT = {"depth": 1, "number": 3, "goal": "count them", "status": "running"}
EVENTS = [
    ("message.start", {"turn_id": "t"}),
    ("tool.start", start(1)),
    ("tool.start", start(2, context="b.txt")),
    ("subagent.start", AGENT),
    ("subagent.tool", {**AGENT, "tool_name": "list", "tool_preview": "src"}),
    ("subagent.complete", {**AGENT, "status": "completed", "summary": "There are 7.\nAll old."}),
    ("tool.complete", end(2, summary="1 line")),
    ("tool.complete", end(1)),
]
TOLD = """\
• read a.txt
• read b.txt
  ↳ sub-agent 3 begins: count them
  ↳ sub-agent 3 • list src
  ↳ sub-agent 3 completed: There are 7.
  ✓ read b.txt: 1 line
  ✓ read a.txt: 3 lines
"""


def test_the_result_of_a_call_alone_has_no_name_and_of_several_each_has():
    calls = Calls()
    calls.began(start(1))
    assert calls.result(end(1)) == "3 lines"
    calls.began(start(2))
    calls.began(start(3, context="x" * 200))
    assert calls.result(end(2)) == "read a.txt: 3 lines"
    assert calls.result(end(3)) == f"read {'x' * 54}…: 3 lines", "the last of several, too"
    calls.began(start(4))
    assert calls.result(end(4, summary="")) == "done"


def test_calls_that_a_turn_left_open_name_none_of_the_next():
    calls = Calls()
    calls.began(start(1))
    calls.clear()
    calls.began(start(2))
    assert calls.result(end(2)) == "3 lines"
    assert calls.result(end(9)) == "3 lines", "one that began before anybody listened"


def test_the_chat_tells_them():
    out = io.StringIO()
    show = Show(Console(file=out, width=100))
    for kind, payload in EVENTS:
        show.event(EventParams(kind, "s", payload))
    assert out.getvalue() == TOLD


def test_run_tells_them_on_stderr(capsys):
    plain = _Plain()
    for kind, payload in EVENTS:
        plain.show(EventParams(kind, "s", payload))
    shown = capsys.readouterr()
    assert (shown.out, shown.err) == ("", TOLD)


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"text": "the gateway was stopped"}, "interrupted (the gateway was stopped)"),
        ({"text": "its time is over", "summary": "Half."}, "interrupted (its time is over): Half."),
        ({}, "interrupted"),
    ],
)
def test_why_one_did_not_complete_is_told(more, told):
    payload = {**AGENT, "depth": 2, "status": "interrupted", **more}
    assert sub_agent("subagent.complete", payload) == f"    ↳ sub-agent 3 {told}"
    assert sub_agent("subagent.progress", {**AGENT, "text": "words"}) == ""


def test_an_earlier_call_is_shown_by_what_it_is_about():
    out = io.StringIO()
    call = {"name": "write", "arguments": '{"path": "a.txt"}', "context": "a.txt"}
    Show(Console(file=out, width=100)).past({"role": "assistant", "text": "", "tool_calls": [call]})
    assert out.getvalue() == "• write a.txt\n"


EDIT = {"path": "a.txt", "old": "one\ntwo\nthree\nfour", "new": "one\n2\nthree\nfour"}


@pytest.mark.parametrize(
    ("name", "given", "told"),
    [
        ("edit", EDIT, [" one", "-two", "+2", " three"]),
        ("write", {"path": "a.txt", "content": "a\tb\n\x1b[2Jc\n"}, ["+a  b", "+\ufffd[2Jc"]),
        ("write", {"content": "x\n" * 18}, [*["+x"] * 16, " … 2 more lines"]),
        ("write", {"content": "y" * 500}, ["+" + "y" * 158 + "…"]),
        ("edit", {"old": "x\n" * 300, "new": "z\n" * 300}, [*["-x"] * 16, " … 584 more lines"]),
        ("write", {"content": 7}, []),
        ("read", {"path": "a.txt"}, []),
        ("edit", None, []),
    ],
)
def test_what_a_call_would_change_is_told_in_a_few_lines(name, given, told):
    assert change_of({"name": name, "args_text": json.dumps(given)}) == told
    assert change_of({"name": name, "args_text": '{"content": "cut'}) == []


def test_a_change_is_shown_below_its_call_before_anybody_is_asked(capsys):
    call = {**start(1, "edit"), "args_text": json.dumps({"old": "a [b]", "new": "c"})}
    out = io.StringIO()
    Show(Console(file=out, width=100)).event(EventParams("tool.start", "s", call))
    _Plain().show(EventParams("tool.start", "s", call))
    assert out.getvalue() == capsys.readouterr().err == "• edit a.txt\n    -a [b]\n    +c\n"


def test_only_the_keys_that_a_question_has_are_offered():
    asked = {"kind": "approval", "allow_permanent": False}
    assert keys_of(asked) == "answer: 1 once · 4 deny"
    assert "2 session · 3 always" in keys_of({**asked, "allow_permanent": True})
