"""A terminal to look at: tmux on a socket of its own, waited on by what its screen shows."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from tenure.processes.identity import Identity, boot_id
from tenure.processes.procfs import all_stats, is_alive

PATIENCE_S = 45.0


class Terminal:
    """One pane. Made by `terminal`."""

    def __init__(self, socket: Path) -> None:
        self._tmux = ["tmux", "-S", str(socket), "-f", "/dev/null"]
        self.shows_early = False
        """What is typed is shown before the program knows it; see `enter`."""

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

    def enter(self, text: str, *, shown: str = "") -> None:
        """Type, and press Enter once the program has taken the text in.

        Sooner it is taken as a paste. A program that shows what is typed before it knows it may also
        leave it there when it is sent; a cursor that has moved since then proves that it knows.

        Args:
            text: one line.
            shown: how its end is shown, if not as it is.
        """
        end = shown or text[-30:]
        before = self._lines_with(end)
        self.type(text)
        self._until(lambda: self._lines_with(end) > before, f"{text} was not taken")
        for key in ("Left", "Right") if self.shows_early else ():
            place = self._cursor(end)
            self.key(key)
            self._until(lambda place=place: self._cursor(end) != place, "the cursor did not move")
        self.key("Enter")

    def press(self, key: str, pattern: str) -> None:
        """Press a key, again if the program has dropped it, until the pattern is on the screen."""
        for _ in range(int(PATIENCE_S)):
            self.key(key)
            try:
                self.wait(pattern, patience_s=1.0)
            except AssertionError:
                continue
            return
        self.wait(pattern, patience_s=0.0)

    def _until(self, true: Callable[[], bool], otherwise: str) -> None:
        give_up = time.monotonic() + PATIENCE_S
        while not true():
            assert time.monotonic() < give_up, f"{otherwise}; the screen:\n{self.screen()}"
            time.sleep(0.03)

    def _lines_with(self, end: str) -> int:
        return sum(line.endswith(end) for line in self.screen().splitlines())

    def _cursor(self, end: str) -> tuple[str, str]:
        """Where the cursor is in the last line that ends so, be it the terminal's or a drawn one."""
        numbers = [n for n, line in enumerate(self.screen().splitlines()) if end[:-1] in line]
        drawn = self.tmux("capture-pane", "-e", "-p", "-t", "t").splitlines()
        line = drawn[numbers[-1]] if numbers and numbers[-1] < len(drawn) else ""
        return line, self.tmux("display-message", "-p", "-t", "t", "#{cursor_x}")

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
        held = _below(int(term.tmux("display-message", "-p", "-t", "t", "#{pid}") or 0))
        term.tmux("kill-server")
        shutil.rmtree(folder, ignore_errors=True)
        _check_ended(held)


def _below(pid: int) -> list[Identity]:
    """A process and all that descend from it."""
    stats = [stat for stat in all_stats() if not stat.gone]
    found = {pid} if pid else set()
    while more := {s.pid for s in stats if s.ppid in found} - found:
        found |= more
    return [Identity(s.pid, s.start_time, boot_id()) for s in stats if s.pid in found]


def _check_ended(held: list[Identity]) -> None:
    """The terminal ends, and what ran in it when that hangs up."""
    give_up = time.monotonic() + PATIENCE_S
    while left := [one for one in held if is_alive(one)]:
        assert time.monotonic() < give_up, f"it has outlived its terminal: {left}"
        time.sleep(0.03)


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
