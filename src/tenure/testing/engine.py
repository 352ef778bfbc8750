"""A container engine's command line as a real program: run by its path, it answers as recorded.

`write_engine` puts an executable into a folder. It keeps its containers as files in `state` beside
it, runs what is executed "in" them as real processes of this machine, logs every command line, and
answers in the words and with the exit codes of Docker 28 and Podman 4, as they were recorded. A
test may let a step fail, half succeed or wait, by a file in that folder.
"""

from __future__ import annotations

import fcntl
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PROGRAM = """\
#!{python}
import fcntl, json, os, pathlib, secrets, signal, sys, time
INSIDE = '''
import json, os, pathlib, subprocess, sys
writer, program, env, cwd, mark, stdin, tty = json.loads(sys.argv[1])
os.set_inheritable(writer, False)
if not tty:
    os.setsid()
try:
    child = subprocess.Popen(program, env=env, cwd=cwd, start_new_session=not tty,
                             stdin=None if stdin else subprocess.DEVNULL)
except FileNotFoundError:
    os.write(writer, b"none")
    sys.exit()
pathlib.Path(mark % child.pid).touch()
for fd in (0, 1, 2):
    os.close(fd)
os.write(writer, str(child.wait()).encode())
'''
HERE = pathlib.Path(__file__).resolve().parent
STATE = HERE / "state"
argv = sys.argv[1:]
with (HERE / "log").open("a") as log:
    log.write(json.dumps(argv) + "\\n")

def fail(text, code=1):
    sys.stderr.write(text + "\\n")
    sys.exit(code)

def rule(name):
    path = HERE / name
    return path.read_text().strip() if path.exists() else ""

while argv and rule("hold") == argv[0]:
    time.sleep(0.01)
if argv and rule("fail") == argv[0]:
    fail("docker: Error response from daemon: a test said no.", 125)
if rule("down"):
    ran = argv[0] == "run"
    fail(("docker: " if ran else "") + "Cannot connect to the Docker daemon at "
         "unix:///var/run/docker.sock. Is the docker daemon running?"
         + ("\\n\\nRun 'docker run --help' for more information" if ran else ""))

lock = (HERE / "lock").open("w")  # one at a time, as an engine does it
fcntl.flock(lock, fcntl.LOCK_EX)

def load(cid):
    path = STATE / cid
    if not path.exists():
        fail("Error response from daemon: No such container: " + cid)
    return json.loads(path.read_text())

def options(words, flags):
    found, rest = {{}}, list(words)
    while rest and rest[0].startswith("-"):
        name = rest.pop(0)
        found.setdefault(name, []).append(True if name in flags else rest.pop(0))
    return found, rest

command, words = argv[0], argv[1:]
if command == "run":
    given, (image, *_rest) = options(words, {{"--detach", "--init"}})
    labels = dict(text.split("=", 1) for text in given.get("--label", []))
    cid = secrets.token_hex(32)
    STATE.mkdir(exist_ok=True)
    facts = {{"labels": labels, "image": image, "given": given, "running": True}}
    (STATE / cid).write_text(json.dumps(facts))
    if rule("fail") == "run after create":
        fail("docker: Error response from daemon: failed to start the container.", 127)
    print("Unable to find image '%s' locally" % image, file=sys.stderr)
    print(cid)
elif command == "ps":
    given, _ = options(words, {{"--all", "--no-trunc"}})
    wanted = [text.removeprefix("label=").split("=", 1) for text in given["--filter"]]
    for path in sorted(STATE.glob("*") if STATE.exists() else []):
        facts = json.loads(path.read_text())
        if all(facts["labels"].get(name) == text for name, text in wanted):
            state = "running" if facts["running"] else "exited"
            print(path.name, facts["labels"].get("tenure.lease", ""), state, sep="\\t")
elif command == "inspect":
    print("true" if load(words[-1])["running"] else "false")
elif command == "rm":
    cid = words[-1]
    load(cid)
    for path in (HERE / "execs").glob(cid + ".*") if (HERE / "execs").exists() else []:
        try:
            os.killpg(int(path.name.partition(".")[2]), signal.SIGKILL)
        except ProcessLookupError:
            pass
        path.unlink()
    (STATE / cid).unlink()
    print(cid)
elif command == "exec":
    given, (cid, *program) = options(words, {{"--interactive", "--tty"}})
    facts = load(cid)
    if not facts["running"]:
        fail("Error response from daemon: container %s is not running" % cid)
    lock.close()
    env = {{"PATH": "/usr/bin:/bin", "HOME": "/tmp"}}
    for text in given.get("--env", []):
        name, has, value = text.partition("=")
        env[name] = value if has else os.environ.get(name, "")
    tty = "--tty" in given
    cwd = given.get("--workdir", ["/"])[-1]
    (HERE / "execs").mkdir(exist_ok=True)
    mark = str(HERE / "execs" / (cid + ".%d"))
    stdin = "--interactive" in given
    reader, writer = os.pipe()
    os.set_inheritable(writer, True)
    spec = json.dumps([writer, program, env, cwd, mark, stdin, tty])
    # What runs in a container is no child of the command line, has nothing of it, and outlives it.
    # On a terminal it has to stay in its session.
    if os.fork() == 0:
        if not tty and os.fork():
            os._exit(0)
        os.execve(sys.executable, [sys.executable, "-c", INSIDE, spec], {{}})
    os.close(writer)
    if tty:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # it is for what runs inside
    with open(reader, "rb") as pipe:
        told = pipe.read().decode()
    if told == "none":
        fail('OCI runtime exec failed: exec failed: unable to start container process: exec: "%s": '
             "no such file or directory: unknown" % program[0], 127)
    code = int(told or 137)
    sys.exit(128 - code if code < 0 else code)
else:
    fail("docker: unknown command: docker " + command)
"""


class EngineDouble:
    """The program and what it keeps.

    Attributes:
        path: of the program.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / "docker"

    def rule(self, name: str, text: str = "yes") -> None:
        """Let commands fail (``fail``), wait (``hold``) or find no engine (``down``)."""
        (self.folder / name).write_text(text)

    def lift(self, name: str) -> None:
        """Take a rule back."""
        (self.folder / name).unlink(missing_ok=True)

    def containers(self) -> dict[str, dict[str, Any]]:
        """What it has: id to facts."""
        state = self.folder / "state"
        with self._alone():
            found = sorted(state.iterdir()) if state.exists() else []
            return {path.name: json.loads(path.read_text()) for path in found}

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """No command is at work meanwhile."""
        with (self.folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def put(self, container: str, **labels: str) -> None:
        """A container that somebody else has made."""
        (self.folder / "state").mkdir(exist_ok=True)
        facts = {"labels": labels, "image": "any", "given": {}, "running": True}
        with self._alone():
            (self.folder / "state" / container).write_text(json.dumps(facts))

    def drop(self, container: str) -> None:
        """Remove one behind everybody's back."""
        with self._alone():
            (self.folder / "state" / container).unlink()

    def commands(self) -> list[list[str]]:
        """Every command line so far."""
        log = self.folder / "log"
        return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []


def write_engine(folder: Path) -> EngineDouble:
    """Put the program into `folder`, which is made."""
    folder.mkdir(parents=True)
    double = EngineDouble(folder)
    double.path.write_text(PROGRAM.format(python=sys.executable))
    double.path.chmod(0o755)
    return double
