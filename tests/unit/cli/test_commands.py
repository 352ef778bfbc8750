"""The other commands, each as a person calls it."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import tomllib

import pytest

from support.commands import TENURE
from support.served import serving
from tenure.cli.model import with_default
from tenure.cli.ps import tree


def test_version_and_help_name_every_command(place):
    assert place.run("--version").out.startswith("tenure 0.")
    shown = place.run("--help").out
    for command in (
        "run",
        "chat",
        "serve",
        "sessions",
        "model",
        "ps",
        "config",
        "logs",
        "doctor",
        "url",
    ):
        assert command in shown
    assert "--stdio" in place.run("serve", "--help").out
    assert "130" in place.run("run", "--help").out


def test_help_imports_nothing_heavy(place):
    code = (
        "import sys\nsys.argv = ['tenure', 'sessions', '--help']\nfrom tenure.cli.main import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "print(sorted(m for m in sys.modules if '.' not in m))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=place.env, capture_output=True, text=True, check=True
    )
    loaded = set(eval(done.stdout.splitlines()[-1]))
    assert "typer" in loaded
    heavy = {"sqlalchemy", "alembic", "uvicorn", "httpx", "websockets", "prompt_toolkit", "pydantic_ai",
             "psutil", "uvloop", "xllamacpp", "asyncio", "sqlite3", "rich", "msgspec"}  # fmt: skip
    assert not loaded & heavy, loaded & heavy


def test_sessions_list_show_export_delete(place):
    assert "No sessions yet" in place.run("sessions", "list").err
    ref = place.script({"text": "An answer."})
    place.run("run", "--model", ref, "a question")
    (row,) = place.run("sessions", "list", "--json").rows()
    assert row["id"] in place.run("sessions", "list").out
    for name in (row["id"], row["id"][-6:], "last", row["title"]):
        assert place.run("sessions", "show", name).out == "› a question\n• An answer.\n"
    exported = json.loads(place.run("sessions", "export", "last").out)
    assert [m["text"] for m in exported["messages"]] == ["a question", "An answer."]
    target = place.root / "out.json"
    place.run("sessions", "export", "last", "-o", str(target))
    assert json.loads(target.read_text()) == exported and target.stat().st_mode & 0o077 == 0
    refused = place.run("sessions", "delete", "last")
    assert refused.code == 2 and "--yes" in refused.sentence
    assert place.run("sessions", "delete", row["id"], "--yes").code == 0
    gone = place.run("sessions", "show", row["id"])
    assert gone.code == 2 and "No session" in gone.sentence


def test_ps_shows_what_is_held_as_a_tree(place):
    alone = place.run("ps")
    assert alone.code == 1 and "start one with `tenure serve`" in alone.sentence
    with serving(place) as served:
        shown = place.run("ps").out
        assert f"pid {served.pid} guard {served.guard_pid}" in shown and "- listener" in shown
        census = json.loads(place.run("ps", "--json").out)
        assert census["gateway"]["pid"] == served.pid
        assert {"kind", "owner", "age_s", "state"} <= set(census["entries"][0])


def test_a_census_as_text():
    facts = {
        "version": "1",
        "pid": 2,
        "guard_pid": 1,
        "uptime_s": 7300,
        "sessions": 1,
        "url": "ws://x",
    }
    entries = [
        {"kind": "store", "label": "", "owner": "gateway/core", "age_s": 1.0, "state": "held"},
        {"kind": "process", "label": "sleep", "owner": "gateway/core/session:s", "age_s": 120.0, "state": "releasing",
         "pid": 7, "rss_bytes": 2_000_000},
    ]  # fmt: skip
    accounts = {"s": {"processes": 2, "fds": 6, "rss_bytes": 3_000_000, "cpu_s": 0.25}}
    census = {"gateway": facts, "entries": entries, "accounts": accounts}
    assert tree(census).splitlines() == [
        "gateway 1 pid 2 guard 1 up 2.0h, 1 session, ws://x",
        "  core", "    - store  1.0s",
        "    session:s  (2 processes, 6 descriptors, 3.0 MB, 0.2 s CPU)", "      - process sleep  2m  releasing  pid 7  2.0 MB",
    ]  # fmt: skip


def test_config_check_where_schema(place):
    assert "defaults are in force" in place.run("config", "check").out
    assert str(place.home / "tenure.db") in place.run("config", "where").out
    assert "queue_max" in place.run("config", "schema").out
    json.loads(place.run("config", "schema").out)


def test_logs(place):
    with serving(place) as served:
        assert served.stop() == 0
    assert "Ending: signal SIGTERM" in place.run("logs").out
    assert place.run("logs", "-n", "1").out.count("\n") == 1
    missing = place.run("logs", "err_nothing")
    assert missing.code == 1 and "names err_nothing" in missing.sentence


def test_doctor_says_what_is_so_and_how_to_mend_it(place):
    place.config("nonsense = 1\n")
    (place.home / "token").write_text("x" * 43)
    (place.home / "token").chmod(0o644)
    ran = place.run("doctor")
    assert ran.code == 1
    assert f"chmod 600 {place.home / 'token'}" in ran.out and "unknown key nonsense" in ran.out
    (place.home / "token").chmod(0o600)
    with serving(place) as served:
        assert f"gateway pid {served.pid}" in place.run("doctor").out


def test_completion_for_the_shell(place):
    command = [*TENURE, "--show-completion"]
    script = f"{shlex.join(map(str, command))}; exit $?"  # it asks who its parents are
    shown = subprocess.run(
        ["bash", "-c", script], env=place.env, cwd=place.work, capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    assert "_COMPLETE=complete_bash" in shown.stdout


# --- models ----------------------------------------------------------------------------------------


def test_model_use_keeps_the_rest_of_the_file(place):
    place.config("# mine\nlog_level = 'debug'\n\n[limits]\nqueue_max = 3\n")
    assert place.run("model", "use", "openai:gpt-5-mini").code == 0
    text = (place.home / "config.toml").read_text()
    assert tomllib.loads(text) == {
        "log_level": "debug", "limits": {"queue_max": 3}, "model": {"default": "openai:gpt-5-mini"},
    }  # fmt: skip
    assert text.startswith("# mine\n")
    refused = place.run("model", "use", "nonsense:x")
    assert refused.code in {1, 2} and "nonsense" in refused.sentence
    assert "* openai:gpt-5-mini" in place.run("model", "list").out


def test_a_model_that_lacks_something_is_listed_with_what_it_lacks(place):
    used = place.run("model", "use", "openai:m")
    assert used.code == 0 and "needs a key first: tenure model login openai" in used.err
    listed = place.run("model", "list").out
    assert "* openai:m  OpenAI  (needs a key: tenure model login openai)" in listed
    assert "(not downloaded: 1.1 GB)" in listed
    doctor = place.run("doctor")
    assert doctor.code == 1 and "✗ model openai:m" in doctor.out
    assert "needs a key and there is none.\n    tenure model login openai" in doctor.out
    keyed = {"OPENAI_API_KEY": "sk-secret-0123456789"}
    assert "needs a key" not in place.run("model", "use", "openai:m", env=keyed).err
    assert "✓ model openai:m" in place.run("doctor", env=keyed).out
    refused = place.run("run", "--model", "starter:nonsense", "hi")
    assert refused.code == 2 and "starter has no model 'nonsense'" in refused.sentence


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[model]\n",
        "[model]\ndefault = 'a:b'\n[x]\n",
        "[x]\na = 1\n[model]\ncontext_tokens = 5\n",
    ],
)
def test_the_default_in_any_file(text):
    made = with_default(text, 'odd:"name"')
    assert tomllib.loads(made)["model"]["default"] == 'odd:"name"'
    assert with_default(made, 'odd:"name"') == made


async def test_model_login_proves_the_key_and_keeps_it_private(place):
    import asyncio

    from tenure.testing.model_server import ModelServer, models, say

    key = "sk-canary-0123456789abcdef"
    async with ModelServer() as server:
        server.answer(models("m"), say("ok"))
        place.extra["OPENAI_BASE_URL"] = server.base_url
        process = await asyncio.create_subprocess_exec(
            *TENURE, "model", "login", "openai", env=place.env, cwd=place.work,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        out, err = await process.communicate(key.encode() + b"\n")
    assert process.returncode == 0, err
    assert key.encode() not in out + err
    stored = place.home / "credentials.json"
    assert key in stored.read_text() and stored.stat().st_mode & 0o077 == 0
    refused = place.run("model", "login", key)
    assert (
        refused.code in {1, 2}
        and "never an argument" in refused.sentence
        and key not in refused.err
    )


def test_a_session_is_named_in_every_way_by_run_too(place):
    ref = place.script({"text": "One."}, {"text": "Two."}, {"text": "Three."}, {"text": "Four."})
    place.run("run", "--model", ref, "a question")
    (row,) = place.run("sessions", "list", "--json").rows()
    for name in ("last", row["id"][-6:], row["title"]):
        assert place.run("run", "--model", ref, "--session", name, "more").code == 0
    assert place.run("sessions", "list", "--json").rows()[0]["message_count"] == 8
    assert "names no session" in place.run("run", "--model", ref, "--session", "nope", "x").sentence


def test_an_export_to_where_it_cannot_go_is_one_sentence(place):
    place.run("run", "--model", place.script({"text": "An answer."}), "a question")
    nowhere = place.run("sessions", "export", "last", "-o", "/nowhere/out.json")
    assert nowhere.code == 2 and "/nowhere/out.json cannot be written" in nowhere.sentence
    folder = place.run("sessions", "export", "last", "-o", str(place.work))
    assert folder.code == 2 and "is a folder" in folder.sentence
    assert [path.name for path in place.root.glob("*.part")] == []


def test_output_of_several_lines_is_set_off_as_a_whole(place):
    call = {"name": "shell", "arguments": {"command": "echo one; echo two"}}
    place.run("run", "--yes", "--model", place.script([{"call": call}], {"text": "Done."}), "go")
    assert "  | one\n  | two\n" in place.run("sessions", "show", "last").out


def test_a_locale_without_unicode_breaks_nothing(place):
    ascii_only = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    ref = place.script({"text": "Grüße 日本."}, {"text": "Again."})
    ran = place.run("run", "--model", ref, "grüße", env=ascii_only)
    assert ran.code == 0 and "Gr\\xfc\\xdfe" in ran.out
    assert place.run("sessions", "show", "last", env=ascii_only).code == 0
    assert "› grüße" in place.run("sessions", "show", "last").out


def test_a_prompt_that_is_not_utf_8_is_taken(place):
    ref = place.script({"text": "An answer."})
    child = place.popen("run", "--model", ref, stdin=subprocess.PIPE)
    out, err = child.communicate(b"bad \xff byte", timeout=60)
    assert (child.returncode, out) == (0, b"An answer.\n"), err


def test_a_folder_that_is_gone_is_one_sentence(place):
    gone = place.work / "gone"
    gone.mkdir()
    for args in (("run", "hi"), ("sessions", "list")):
        code = f'cd {gone} && rmdir {gone} && exec "$@"; '
        done = subprocess.run(
            ["/bin/sh", "-c", code, "sh", *TENURE, *args],
            env=place.env, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False,
        )  # fmt: skip
        gone.mkdir()
        assert done.returncode == 2 and "does not exist any more" in done.stderr
        assert "Traceback" not in done.stderr


def test_closed_and_full_outputs_end_with_a_code(place):
    place.run("run", "--model", place.script({"text": "An answer."}), "a question")
    for redirection, code in ((">&-", 0), (">/dev/full", 1), ("<&-", 0)):
        done = subprocess.run(
            ["/bin/sh", "-c", f'"$@" {redirection}', "sh", *TENURE, "sessions", "list"],
            env=place.env, cwd=place.work, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == code and "Traceback" not in done.stderr, done.stderr
        assert not code or "No space left" in done.stderr


def test_a_port_beyond_all_ports_is_one_sentence(place):
    refused = place.run("serve", "--port", "99999")
    assert refused.code == 2 and "99999 is no port" in refused.sentence


def test_a_model_that_cannot_be_made_is_told_once(place):
    refused = place.run("run", "--model", "openai:some", "hi")
    assert refused.code == 2 and "OPENAI_API_KEY" in refused.sentence


def test_config_check_tells_everything_that_makes_no_sense(place):
    place.config(
        '[limits]\nqueue_max = -1\n[[approvals.rules]]\ndecision = "deny"\ntool = "shel"\n'
    )
    done = place.run("config", "check")
    assert done.code == 2 and done.out == ""
    first, second = done.err.splitlines()
    assert "config.toml line 2: limits.queue_max is -1; it must be 0 or more." in first
    assert "config.toml line 5: approvals.rules[0].tool 'shel' names no tool" in second
    assert "(And 1 more; see `tenure config check`.)" in place.run("run", "hi").sentence
    place.config("[limits]\nqueue_max = 1\n")
    assert "is valid" in place.run("config", "check").out


def test_a_wrong_command_line_is_one_sentence(place):
    for args, said in (
        (["run", "--bad"], "No such option: --bad"),
        (["run", "x", "--model"], "--model"),
        (["sessions", "foo"], "No such command 'foo'; `tenure sessions --help`"),
        (["sessions", "show"], "Missing argument"),
        (["sessions", "list", "--limit", "0"], "--limit"),
        (["serve", "--bad"], "Unrecognized arguments: --bad; `tenure serve --help`"),
        (["serve", "--port", "x"], "--port"),
        (["frobnicate"], "No such command 'frobnicate'; `tenure --help`"),
    ):
        ran = place.run(*args)
        assert ran.code == 2 and ran.sentence.startswith("tenure: ") and said in ran.sentence
    assert "Commands:" in place.run("sessions").err


BROKEN = """\
log_level = "loud"
unknown = 1
[[approvals.rules]]
decision = "maybe"
"""


def test_a_broken_configuration_is_told_whole_and_keeps_nobody_from_looking(place):
    ref = place.script({"text": "An answer."})
    place.run("run", "--model", ref, "a question")
    place.config(BROKEN)
    checked = place.run("config", "check")
    lines = checked.err.splitlines()
    assert checked.code == 2 and len(lines) == 3
    assert "line 1: log_level" in lines[0] and "debug, info, warning, error" in lines[0]
    assert "line 4: approvals.rules[0].decision" in lines[1] and "allow, ask, deny" in lines[1]
    assert "unknown key unknown" in lines[2]
    doctor = place.run("doctor")
    assert doctor.code == 1 and "✗ " + str(place.home) in doctor.out
    assert "open files allowed" in doctor.out, "it goes on"
    listed = place.run("sessions", "list")
    assert listed.code == 0 and "a question" in listed.out and "log_level" in listed.sentence
    assert "An answer." in place.run("sessions", "show", "last").out
    assert "No gateway serves the home" in place.run("ps").err
    assert place.run("run", "--model", ref, "another").code == 2, "nothing runs with guessed values"
    assert place.run("sessions", "delete", "--yes", "last").code == 2
    place.config("")
    with serving(place):
        place.config(BROKEN)
        assert "gateway" in place.run("ps").out
