"""A terminal to look at: tmux on a socket of its own, waited on by what its screen shows."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

PATIENCE_S = 20.0


class Terminal:
    """One pane. Made by `terminal`."""

    def __init__(self, socket: Path) -> None:
        self._tmux = ["tmux", "-S", str(socket), "-f", "/dev/null"]

    def tmux(self, *args: str) -> str:
        done = subprocess.run([*self._tmux, *args], capture_output=True, text=True, check=False)
        return done.stdout

    def screen(self) -> str:
        """What is shown now, without blanks at the line ends."""
        text = self.tmux("capture-pane", "-p", "-t", "t")
        return "\n".join(line.rstrip() for line in text.splitlines())

    def history(self) -> str:
        """What was ever shown, scrolled off or not."""
        return self.tmux("capture-pane", "-p", "-S", "-", "-t", "t")

    def type(self, text: str) -> None:
        self.tmux("send-keys", "-t", "t", "-l", text)

    def key(self, *names: str) -> None:
        self.tmux("send-keys", "-t", "t", *names)

    def paste(self, text: str) -> None:
        """As a terminal pastes: bracketed, in one piece."""
        self.tmux("set-buffer", "-b", "p", text)
        self.tmux("paste-buffer", "-p", "-b", "p", "-t", "t")

    def enter(self, text: str) -> None:
        """Type, and press Enter once the text stands in the input line: sooner is taken as a paste."""
        end, give_up = text[-30:], time.monotonic() + PATIENCE_S
        before = self._lines_with(end)
        self.type(text)
        while self._lines_with(end) <= before:
            assert time.monotonic() < give_up, f"{text} was not taken; the screen:\n{self.screen()}"
            time.sleep(0.03)
        self.key("Enter")

    def _lines_with(self, end: str) -> int:
        return sum(line.endswith(end) for line in self.screen().splitlines())

    def wait(self, *patterns: str, absent: str = "", patience_s: float = PATIENCE_S) -> str:
        """Until every pattern is on the screen (and `absent` is not); the screen."""
        give_up = time.monotonic() + patience_s
        while True:
            screen = self.screen()
            flat = re.sub(r"\s+", " ", screen)
            shown = [p for p in patterns if not (p in flat or re.search(p, flat))]
            if not shown and not (absent and absent in flat):
                return screen
            assert time.monotonic() < give_up, (
                f"never shown: {shown or absent}; the screen:\n{screen}"
            )
            time.sleep(0.03)

    def wait_dead(self, patience_s: float = PATIENCE_S) -> int:
        """Until the program has ended; its exit code, or minus the signal that ended it."""
        give_up = time.monotonic() + patience_s
        asked = "#{pane_dead}:#{pane_dead_status}:#{pane_dead_signal}:#{pane_pid}"
        while True:
            dead, status, signum, pid = self.tmux("display-message", "-p", "-t", "t", asked).split(
                ":"
            )
            if dead == "1" and (status.strip() or signum.strip()):
                return int(status) if status.strip() else -int(signum)
            if dead == "1" and (code := _unreaped(int(pid))) is not None:
                return code
            assert time.monotonic() < give_up, (
                f"it still runs ({dead}:{status}:{signum}); the screen:\n{self.screen()}"
            )
            time.sleep(0.03)


@contextmanager
def terminal(
    argv: Sequence[str], *, env: Mapping[str, str], cwd: Path, size: tuple[int, int] = (120, 40)
) -> Iterator[Terminal]:
    """Run a program in a terminal; the terminal ends on leaving."""
    need("tmux", "tmux")
    folder = Path(tempfile.mkdtemp(prefix="t"))
    term = Terminal(folder / "s")
    assignments = [f"{k}={v}" for k, v in env.items()]
    command = shlex.join(["env", "-i", *assignments, *argv])
    try:
        subprocess.run(
            [*term._tmux, "new-session", "-d", "-s", "t", "-x", str(size[0]), "-y", str(size[1]),
             "-c", str(cwd), "sleep 1000", ";", "set", "-g", "remain-on-exit", "on", ";",
             "set", "-g", "history-limit", "5000", ";",
             "respawn-pane", "-k", "-t", "t", command],
            check=True, capture_output=True, env={"PATH": os.environ["PATH"], "LANG": "C.UTF-8"},
        )  # fmt: skip
        yield term
    finally:
        term.tmux("kill-server")
        shutil.rmtree(folder, ignore_errors=True)


def need(program: str, package: str) -> str:
    """The path of a program, or a failure that names its package."""
    found = shutil.which(program)
    assert found, f"{program} is missing, which this test needs; apt-get install {package}"
    return found


def _unreaped(pid: int) -> int | None:
    """How a program has ended that the terminal has not reaped yet; None while it runs.

    After a respawn the terminal now and then overlooks the end of its child, which then stays a
    zombie; the kernel knows its status all the same.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    if fields[0] != "Z":
        return None
    status = int(fields[-1])
    return -(status & 0x7F) if status & 0x7F else status >> 8
