"""tenure service: what is written names everything in full, holds no secret and leaves time."""

from __future__ import annotations

import plistlib
import shlex
import shutil
import subprocess
from collections import defaultdict
from pathlib import Path

import pytest

from support.commands import Place
from tenure.cli.daemon import NOT_INSTALLED, plist, unit
from tenure.config import Home, ServerConfig
from tenure.errors import BadValue
from tenure.processes.cgroups import WANTED
from tenure.shutdown import budget

SECRETS = {"OPENAI_API_KEY": "sk-secret-1", "TENURE_TOKEN": "token-secret-2"}
ODD = "home with % and \" and \\ and $HOME and 'ticks'"


@pytest.fixture
def place(tmp_path) -> Place:
    return Place(tmp_path, {**SECRETS, "XDG_CACHE_HOME": str(tmp_path / "cache")})


def parsed(text: str) -> dict[str, list[str]]:
    """The assignments of a unit file, in order; words are unquoted as systemd does."""
    found = defaultdict(list)
    for line in text.splitlines():
        if "=" in line and not line.startswith("#"):
            key, _, value = line.partition("=")
            found[key].append(value)
    return found


def words(value: str) -> list[str]:
    return [word.replace("%%", "%") for word in shlex.split(value)]


def test_the_unit_is_written_for_this_home_with_no_secret_and_readable(place):
    done = place.run("service", "install", "--kind", "systemd")
    path = place.user / ".config/systemd/user/tenure.service"
    assert done.code == 0 and "enable --now tenure" in done.out
    assert path.stat().st_mode & 0o777 == 0o644
    text = path.read_text()
    assert not [secret for secret in SECRETS.values() if secret in text]
    found = parsed(text)
    variables = dict(words(value)[0].split("=", 1) for value in found["Environment"])
    assert variables["TENURE_HOME"] == str(place.home)
    assert variables["HOME"] == str(place.user)
    assert set(variables) <= {"TENURE_HOME", "HOME", "PATH", "LANG", "XDG_CACHE_HOME"}
    program, *arguments = words(found["ExecStart"][0])
    assert Path(program).is_absolute() and arguments[-1] == "serve"
    assert found["KillMode"] == ["mixed"] and found["KillSignal"] == ["SIGTERM"]
    assert place.run("service", "status").code == 0
    assert place.run("service", "install").code == 0, "again, over our own"
    assert place.run("service", "uninstall").code == 0
    assert not path.exists()
    assert place.run("service", "status").code == NOT_INSTALLED
    assert place.run("service", "uninstall").code == 0


def test_systemd_gives_it_a_cgroup_with_the_controllers_of_its_limits(tmp_path):
    text = unit({"HOME": "/h"}, Home(tmp_path, tmp_path), ServerConfig(), system=False)
    assert set(parsed(text)["Delegate"][0].split()) == set(WANTED)


@pytest.mark.parametrize("total", [2.0, 7.5, 20.0, 61.0, 600.0])
def test_the_kill_time_lies_above_the_budget(tmp_path, total):
    server = ServerConfig(shutdown_s=total)
    environ, home = {"HOME": "/h", "PATH": "/bin"}, Home(tmp_path, tmp_path)
    limit = int(parsed(unit(environ, home, server, system=False))["TimeoutStopSec"][0])
    assert limit == budget(server).kill_s > budget(server).total_s
    listed = plistlib.loads(plist(environ, home, server, "tenure.gateway").encode())
    assert listed["ExitTimeOut"] == limit


def test_the_property_list_says_the_same(place):
    done = place.run("service", "install", "--kind", "launchd")
    path = place.user / "Library/LaunchAgents/tenure.gateway.plist"
    assert done.code == 0 and path.stat().st_mode & 0o777 == 0o644
    listed = plistlib.loads(path.read_bytes())
    assert listed["ProgramArguments"][-1] == "serve"
    assert listed["EnvironmentVariables"]["TENURE_HOME"] == str(place.home)
    assert not [secret for secret in SECRETS.values() if secret in path.read_text()]


def test_odd_names_arrive_as_they_are(tmp_path):
    home = Home(tmp_path / ODD, tmp_path)
    text = unit({"HOME": "/h", "PATH": "/bin"}, home, ServerConfig(), system=False)
    assert words(parsed(text)["Environment"][0]) == [f"TENURE_HOME={tmp_path / ODD}"]
    listed = plistlib.loads(plist({"HOME": "/h"}, home, ServerConfig(), "t").encode())
    assert listed["EnvironmentVariables"]["TENURE_HOME"] == str(tmp_path / ODD)
    with pytest.raises(BadValue, match="line break"):
        unit(
            {"HOME": "/h"},
            Home(tmp_path / "a\nExecStart=b", tmp_path),
            ServerConfig(),
            system=False,
        )


@pytest.mark.parametrize("system", [False, True])
def test_systemd_itself_finds_no_fault(place, system):
    if shutil.which("systemd-analyze") is None:
        pytest.skip("no systemd-analyze here")
    more = ["--system"] if system else []
    printed = place.run("service", "install", "--print", "--kind", "systemd", *more)
    path = place.root / "tenure.service"
    path.write_text(printed.out)
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(path)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    ours = [line for line in done.stderr.splitlines() if "tenure.service" in line]
    assert ours == [] and done.returncode == 0, done.stderr


def test_what_is_not_ours_is_left_alone(place):
    path = place.user / ".config/systemd/user/tenure.service"
    path.parent.mkdir(parents=True)
    path.write_text("[Unit]\nDescription=mine\n")
    for command in ("install", "uninstall"):
        done = place.run("service", command, "--kind", "systemd")
        assert done.code != 0 and "move it away" in done.sentence
    assert path.read_text() == "[Unit]\nDescription=mine\n"


def test_status_says_when_it_would_be_written_differently(place):
    place.run("service", "install", "--kind", "systemd")
    place.config("[server]\nshutdown_s = 100\n")
    done = place.run("service", "status", "--kind", "systemd", "--json")
    facts = done.rows()
    assert (facts["installed"], facts["current"], facts["kill_after_s"]) == (True, False, 125)
    assert facts["running"] is False


def test_an_unknown_kind_is_refused(place):
    done = place.run("service", "install", "--kind", "runit")
    assert done.code != 0 and "systemd or launchd" in done.sentence
