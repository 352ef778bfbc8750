"""Questions in our own faces: the chat and `run` in a terminal, and `tenure approvals`."""

from __future__ import annotations

import pytest

from support.commands import TENURE
from support.served import serving
from support.terminal import terminal
from tenure.cli.ask import answer_of, is_hidden, question_text

SECRET = "correct-horse-battery"


def clarify(*choices):
    return {"call": {"name": "clarify", "arguments": {"question": "Which?", "choices": [*choices]}}}


def shell(command, *secrets):
    arguments = {"command": command, "secrets": [*secrets]}
    return {"call": {"name": "shell", "arguments": arguments}}


KEY_LENGTH = shell('echo "key=$API_KEY" && printf %s "$API_KEY" | wc -c', "API_KEY")


def everything_in(folder) -> bytes:
    return b"".join(p.read_bytes() for p in folder.rglob("*") if p.is_file())


def test_the_chat_asks_takes_secrets_unseen_and_goes_on(place):
    ref = place.script(clarify("red", "blue"), {"text": "Blue."}, KEY_LENGTH, {"text": "Sent."})
    with terminal(
        [*TENURE, "chat", "--yes", "--model", ref], env=place.env, cwd=place.work, size=(100, 35)
    ) as term:
        term.wait("approvals are let pass \\(--yes\\)", "Ctrl-D leaves")
        term.enter("paint it")
        term.wait("Which\\?", r"\[2\] blue", "type your answer")
        term.enter("2")
        term.wait("Blue.", "idle")
        term.enter("send it")
        term.wait("API_KEY for: echo", "type the secret")
        term.type(SECRET)
        term.wait(r"\*{8}")
        term.key("Enter")
        term.wait("Sent.", "idle")
        assert SECRET not in term.history()
        term.key("C-d")
        assert term.wait_dead() == 0
    assert SECRET.encode() not in everything_in(place.home), "nor in what was typed"
    told = place.run("sessions", "show", "last").out
    assert "key=***" in told and str(len(SECRET)) in told


def test_run_in_a_terminal_asks_too(place):
    ref = place.script(clarify("red", "blue"), KEY_LENGTH, {"text": "All done."})
    with terminal(
        [*TENURE, "run", "--yes", "--model", ref, "go"],
        env=place.env,
        cwd=place.work,
        size=(100, 35),
    ) as term:
        term.wait("approvals are let pass", "Which\\?", r"\[1\] red")
        term.enter("1")
        term.wait("API_KEY for: echo")
        term.type(SECRET)
        term.key("Enter")
        term.wait("All done.")
        assert term.wait_dead() == 0
        assert SECRET not in term.history()
    told = place.run("sessions", "show", "last").out
    assert "red" in told and "key=***" in told


def test_approvals_are_listed_and_revoked(place):
    ref = place.script(
        shell("make all"), {"text": "One."}, shell("make all"), {"text": "Two."},
    )  # fmt: skip
    none = place.run("approvals", "list")
    assert none.code == 0 and not none.out and "Nothing is allowed" in none.err
    with terminal(
        [*TENURE, "run", "--model", ref, "go"], env=place.env, cwd=place.work, size=(100, 35)
    ) as term:
        term.wait("Allow this\\?", r"\[3\] always: shell: make all \*")
        term.enter("3")
        term.wait("One.")
        term.wait_dead()
    listed = place.run("approvals", "list")
    name, extent, *allows = listed.out.split()
    assert (extent, " ".join(allows)) == ("always", "shell: make all *")
    (row,) = __import__("json").loads(place.run("approvals", "list", "--json").out)
    assert row == {"id": name, "extent": "always", "allows": ["shell: make all *"]}
    assert place.run("run", "--model", ref, "--session", "last", "again").code == 0
    assert place.run("approvals", "revoke", name).code == 0
    assert not place.run("approvals", "list").out
    assert place.run("run", "--model", ref, "--session", "last", "again").code == 3
    gone = place.run("approvals", "revoke", name)
    assert gone.code == 2 and "approvals list" in gone.err
    mine = place.run("approvals", "list", "--session", "last")
    assert mine.code == 0


ASKED = {"request_id": "ask_1"}


@pytest.mark.parametrize(
    ("question", "line", "call"),
    [
        ({"kind": "approval", "choices": ["once", "deny"]}, "1",
         ("approval.respond", {"request_id": "ask_1", "choice": "once"})),
        ({"kind": "approval", "choices": ["once", "deny"]}, "3", None),
        ({"kind": "approval", "choices": ["once", "deny"]}, "maybe", None),
        ({"kind": "clarify", "choices": ["red", "blue"]}, " 2 ",
         ("clarify.respond", {"request_id": "ask_1", "answer": "blue"})),
        ({"kind": "clarify", "choices": ["red"]}, "7",
         ("clarify.respond", {"request_id": "ask_1", "answer": "7"})),
        ({"kind": "clarify", "choices": ["red"]}, "²",
         ("clarify.respond", {"request_id": "ask_1", "answer": "²"})),
        ({"kind": "clarify", "choices": ["red"]}, "9" * 5_000,
         ("clarify.respond", {"request_id": "ask_1", "answer": "9" * 5_000})),
        ({"kind": "clarify", "choices": None}, "",
         ("clarify.respond", {"request_id": "ask_1", "answer": ""})),
        ({"kind": "secret"}, " with blanks ",
         ("secret.respond", {"request_id": "ask_1", "value": " with blanks "})),
        ({"kind": "sudo"}, "x", ("sudo.respond", {"request_id": "ask_1", "password": "x"})),
    ],
)  # fmt: skip
def test_what_a_typed_line_answers(question, line, call):
    assert answer_of({**ASKED, **question}, line) == call


def test_how_questions_look():
    asked = {"kind": "clarify", "question": "Which?", "choices": ["red"]}
    assert "[1] red" in question_text(asked) and not is_hidden(asked)
    hidden = {"kind": "sudo", "prompt": "SUDO_PASSWORD for: x"}
    assert "SUDO_PASSWORD for: x" in question_text(hidden) and is_hidden(hidden)
    assert not is_hidden(None)


def test_a_run_that_asks_goes_on_when_it_is_answered_elsewhere_and_ends_with_ctrl_c(place):
    touch = {"call": {"name": "shell", "arguments": {"command": "touch made.txt"}}}
    run = [*TENURE, "run", "--model", place.script([touch], {"text": "It is made."}), "go"]
    with serving(place):
        with terminal(run, env=place.env, cwd=place.work) as asking:
            asking.wait("Allow this\\?")
            chat = [*TENURE, "chat", "--session", "last"]
            with terminal(chat, env=place.env, cwd=place.work) as window:
                window.wait("Allow this\\?", "answer: 1 once")
                window.enter("1")
                asking.wait("It is made.")
                assert asking.wait_dead() == 0
        with terminal(run, env=place.env, cwd=place.work) as asking:
            asking.wait("Allow this\\?")
            asking.key("C-c")
            asking.wait("tenure run: interrupted")
            assert asking.wait_dead() == 130
