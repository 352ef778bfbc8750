"""--sandbox: where commands run, said before they do, and what doctor says of it."""

from __future__ import annotations

from typing import get_args, get_type_hints

import pytest

from support.boxes import needs_bwrap
from support.commands import TENURE
from support.terminal import terminal
from tenure.cli import ask, options
from tenure.processes.cgroups import WANTED, look_for_place, offered
from tenure.protocol.methods import SessionCreate
from tenure.settings import SandboxConfig
from tenure.testing.engine import write_engine


def shell(command):
    return {"call": {"name": "shell", "arguments": {"command": command}}}


@needs_bwrap
def test_by_default_commands_run_in_a_box_and_it_says_so(place):
    place.extra["TENURE_SANDBOX"] = "auto"
    ref = place.script(shell("echo x > made; ls -A ~; cat $TENURE_HOME/token"), {"text": "Done."})
    ran = place.run("run", "--model", ref, "go")
    assert ran.code == 0 and "in a box on this machine, without network (auto)" in ran.err
    assert (place.work / "made").read_text() == "x\n"
    token = (place.home / "token").read_text()
    assert token not in ran.out + ran.err
    assert not (place.home / "boxes").exists(), "its folders went with it"


def test_the_flag_decides(place):
    place.extra["TENURE_SANDBOX"] = "auto"
    ref = place.script(shell("echo x > made"), {"text": "Done."})
    ran = place.run("run", "--sandbox", "local", "--model", ref, "go")
    assert ran.code == 3 and "unconfined (chosen for this session)" in ran.err
    assert not (place.work / "made").exists(), "without a box it is asked, and nobody can be"


@pytest.mark.parametrize(
    ("kind", "said"),
    [("ssh", "sandbox.ssh.host"), ("nonsense", "There is no sandbox 'nonsense'; use one of auto,")],
)
def test_one_that_cannot_be_had_is_told(place, kind, said):
    ref = place.script({"text": "Done."})
    ran = place.run("run", "--sandbox", kind, "--model", ref, "go")
    assert ran.code == 2 and said in ran.err


def test_an_engine_that_does_not_answer_is_told_before_anything_is_done(place, tmp_path):
    double = write_engine(tmp_path / "engine")
    double.rule("down")
    place.config(f'[sandbox.docker]\nprogram = "{double.path}"\n')
    ref = place.script(shell("touch made"), {"text": "Done."})
    ran = place.run("run", "--sandbox", "docker", "--yes", "--model", ref, "go")
    assert ran.code == 2 and "Is the docker daemon running?" in ran.err
    assert not any(line[0] == "run" for line in double.commands()) and "Done." not in ran.out
    told = place.run("doctor")
    assert told.code == 0 and "· No containers for commands: " in told.out
    assert "Is the docker daemon running?" in told.out
    place.config(f'[sandbox]\nkind = "docker"\n[sandbox.docker]\nprogram = "{double.path}"\n')
    told = place.run("doctor")
    assert told.code == 1 and "✗ No containers for commands: " in told.out
    double.lift("down")
    assert f"✓ containers by {double.path}" in place.run("doctor").out


def test_doctor_tells_that_there_is_no_engine(place, tmp_path):
    ran = place.run("doctor", env={"PATH": str(tmp_path)})
    assert "No containers for commands: There is no docker or podman here" in ran.out


@needs_bwrap
def test_doctor_tells_whether_there_are_boxes(place, tmp_path):
    assert "bubblewrap works" in place.run("doctor").out
    place.config('[sandbox]\nkind = "bubblewrap"\n')
    ran = place.run("doctor", env={"PATH": str(tmp_path)})
    assert ran.code == 1 and "No box for commands: bwrap cannot start" in ran.out
    assert "apt-get install bubblewrap" in ran.out


def test_the_flag_offers_what_there_is():
    kinds = get_args(get_type_hints(SandboxConfig)["kind"])
    assert kinds == options.KINDS
    assert ("", *kinds) == get_args(get_type_hints(SessionCreate)["sandbox"])


def test_a_question_says_where_it_would_run():
    asked = {
        "kind": "approval", "description": "It runs a command.", "command": "make", "cwd": "/w",
        "effect": "execute", "allow_permanent": False, "patterns": [], "place": "on this machine",
    }  # fmt: skip
    assert "  commands run on this machine" in ask._approval(asked)


@pytest.mark.parametrize("said", ["run", "chat"])
def test_the_flag_is_the_sessions_own_wherever_it_is_given(place, said):
    """`TENURE_SANDBOX` is local here: only the flag can bring the sentence about ssh."""
    ref = place.script({"text": "Done."})
    arguments = [said, "--sandbox", "ssh", "--model", ref]
    if said == "run":
        assert "sandbox.ssh.host" in place.run(*arguments, "go").err
        return
    with terminal([*TENURE, *arguments], env=place.env, cwd=place.work, size=(100, 35)) as term:
        term.wait("sandbox.ssh.host")
        term.key("C-d")
        term.wait_dead()


def test_doctor_tells_who_keeps_the_limits_of_sessions(place):
    told = place.run("doctor").out
    found = look_for_place()
    kept = offered(found.path) if found.path else frozenset()
    if kept.issuperset(WANTED):
        assert f"the kernel keeps the limits of sessions, in groups below {found.path}" in told
    else:
        assert "kept by looking: " in told
        assert "-p Delegate=yes tenure serve" in told
