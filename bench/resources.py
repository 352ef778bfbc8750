"""``python -m bench resources``: what sessions hold, and that nothing of it stays behind."""

from __future__ import annotations

import asyncio
import http.server
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import uvloop

from bench import driver
from bench.gateways import Running, Tenure
from tenure.clock import SystemClock
from tenure.lifecycle.scope import Scope
from tenure.processes.spawn import Spawner
from tenure.sandbox.base import Order
from tenure.sandbox.local import Local

Figures = dict[str, float]
BROWSERS = 10
CONFIG = '[web]\nallow = ["127.0.0.1"]\n[sandbox]\nnetwork = true\n'
BALLAST_BYTES = 1_500_000_000
PAGE = b"<html><body><h1>A page</h1>" + b"<p>Some words in a row.</p>" * 500 + b"</body></html>"


# --- shell commands -------------------------------------------------------------------------------


async def _commands(rounds: int) -> tuple[float, float]:
    """Medians in seconds, spawn to exit: ours in a sandbox `local`, and a bare Popen, in turn."""
    ours, bare = [], []
    scope = Scope.root("bench", SystemClock())
    spawner = Spawner(instance="bench-0", environ=dict(os.environ), clock=SystemClock())
    keeper = await spawner.spawn(scope, ["sleep", "600"])  # as in a session that works
    box = Local(spawner, Path.cwd(), "bench", "")
    order = Order(("bash", "-c", "true"))
    for _ in range(rounds):
        begun = time.perf_counter()
        with subprocess.Popen(  # noqa: ASYNC220 - what it is compared with
            order.argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            start_new_session=True,
        ) as popen:  # fmt: skip
            popen.wait()
            bare.append(time.perf_counter() - begun)
        begun = time.perf_counter()
        process = await box.start(scope, order)
        await process.wait()
        ours.append(time.perf_counter() - begun)
        await process.stop()
    await keeper.stop()
    await scope.close()
    return statistics.median(ours), statistics.median(bare)


def commands(rounds: int) -> Figures:
    """With little memory and with much, which a fork would have to copy the tables of."""
    found: Figures = {}
    for name, size in (("little", 0), ("1.5 GB of", BALLAST_BYTES)):
        ballast = bytearray(size)
        for at in range(0, size, 4096):
            ballast[at] = 1
        ours, bare = uvloop.run(_commands(rounds))
        found[f"a shell command with {name} memory, spawn to exit, ms"] = ours * 1000
        found[f"a bare Popen with {name} memory, spawn to exit, ms"] = bare * 1000
        found[f"a shell command with {name} memory, part of a bare Popen"] = ours / bare
        del ballast
    return found


# --- sessions with background processes --------------------------------------------------------------


def _held(running: Running, home: Path) -> dict[str, float]:
    """What the gateway's tree has now, and the files of its home that are not the database's."""
    found = driver.footprint(running.pid)
    kept = ("tenure.db", "checkpoints", "spill", "logs")  # of the sessions, until they are deleted
    files = [p for p in home.rglob("*") if p.is_file() and not _kept(p.relative_to(home), kept)]
    groups = [p for p in Path("/sys/fs/cgroup").rglob("*tenure*") if p.is_dir()]
    held = {name: found[name] for name in ("threads", "fds", "processes")}
    return {**held, "files": float(len(files)), "cgroups": float(len(groups))}


def _kept(path: Path, names: tuple[str, ...]) -> bool:
    return any(part.startswith(names) for part in path.parts)


async def _one(wire: Any, command: str) -> str:
    session, _, _ = await driver.create(wire, auto_approve=True)
    await wire.call("prompt.submit", session_id=session, text=command)
    return session


async def _crowd(running: Running, home: Path, count: int) -> Figures:
    wire = await driver.Wire.open(running.url, running.token)
    warm = await _one(wire, "go")  # what a first use imports and opens is no leak
    await wire.until("message.complete")
    await driver.close(wire, warm)
    await asyncio.sleep(2)
    before = _held(running, home)
    sessions, most = [], 0.0
    begun = time.perf_counter()
    for first in range(0, count, 20):
        some = range(first, min(count, first + 20))
        sessions += [await _one(wire, "go") for _ in some]
        for _ in some:
            await wire.until("message.complete")
    most = driver.footprint(running.pid)["processes"]
    for session in sessions:
        await wire.call("session.close", session_id=session)
    took = time.perf_counter() - begun
    await asyncio.sleep(3)
    after = _held(running, home)
    verdict = await wire.call("census.verify")
    await wire.close()
    label = f"{count} sessions with a background process each, opened and closed"
    return {
        f"{label}: processes at the most": most,
        f"{label}, per second": count / took,
        **{f"{label}: {name} more": after[name] - before[name] for name in before},
        f"{label}: differences between census and system": float(verdict["found"]),
    }


def crowd(gateway: Tenure, count: int) -> Figures:
    """Many sessions, each with a process that would outlive its turn."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        start = {"name": "background", "arguments": {"action": "start", "command": "sleep 6000"}}
        script = home / "script.json"
        script.write_text(
            json.dumps({"steps": [{"call": start}, {"text": "It runs."}], "loop": True})
        )
        running = gateway.start(home, 0, f"scripted:{script}")
        try:
            return asyncio.run(_crowd(running, home / "tenure", count))
        finally:
            running.stop()


# --- browsers ---------------------------------------------------------------------------------------


class _Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/html")
        self.end_headers()
        self.wfile.write(PAGE)

    def log_message(self, *_: object) -> None:
        """Quiet."""


@contextmanager
def _pages() -> Iterator[str]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Page)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def pss_bytes(pids: list[int]) -> int:
    """Proportional memory of processes: what they share is counted once."""
    total = 0
    for pid in pids:
        try:
            text = Path(f"/proc/{pid}/smaps_rollup").read_text()
        except OSError:
            continue
        total += sum(
            int(line.split()[1]) * 1024 for line in text.splitlines() if line.startswith("Pss:")
        )
    return total


async def _look(running: Running, sessions: int) -> None:
    """So many sessions that each look at the page, and stay: they are attached to nobody's socket."""
    wire = await driver.Wire.open(running.url, running.token)
    for _ in range(sessions):
        await _one(wire, "go")
        await wire.until("message.complete")
    await wire.close()


def _grown(gateway: Tenure, home: Path, gateways: int, sessions: int) -> int:
    """Bytes (PSS) that so many gateways take more when each has so many sessions with a page."""
    running = [gateway.start(_place(home / str(n)), 0, f"scripted:{home.parent}/script.json")
               for n in range(gateways)]  # fmt: skip
    try:
        time.sleep(3)
        trees = [driver.tree(one.pid) for one in running]
        before = pss_bytes([pid for tree in trees for pid in tree])
        for one in running:
            asyncio.run(_look(one, sessions))
        time.sleep(3)
        trees = [driver.tree(one.pid) for one in running]
        return pss_bytes([pid for tree in trees for pid in tree]) - before
    finally:
        for one in running:
            one.stop()


def _place(folder: Path) -> Path:
    (folder / "tenure").mkdir(parents=True)
    (folder / "tenure/config.toml").write_text(CONFIG)
    return folder


def _bare_browsers(url: str) -> int:
    """Ten Chromiums, each with the page, side by side."""
    chromium = shutil.which("chromium") or "chromium"
    with tempfile.TemporaryDirectory() as folder:
        running = [
            subprocess.Popen(
                [chromium, "--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0",
                 f"--user-data-dir={folder}/{n}", url],
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            )
            for n in range(BROWSERS)
        ]  # fmt: skip
        try:
            time.sleep(15)
            return pss_bytes([pid for one in running for pid in driver.tree(one.pid)])
        finally:
            for one in running:
                one.terminate()
            for one in running:
                one.wait()


def browsers(gateway: Tenure) -> Figures:
    """Sessions with a page each in one browser, and as many browsers."""
    with tempfile.TemporaryDirectory() as folder, _pages() as url:
        home = Path(folder)
        look = {"name": "browser", "arguments": {"action": "navigate", "url": url}}
        steps = [{"call": look}, {"text": "Seen."}]
        (home / "script.json").write_text(json.dumps({"steps": steps, "loop": True}))
        one = _grown(gateway, home / "one", 1, BROWSERS)
        ten = _grown(gateway, home / "ten", BROWSERS, 1)
        bare = _bare_browsers(url)
    return {
        f"{BROWSERS} sessions with a page each, in one browser, MB (PSS)": one / 1e6,
        f"{BROWSERS} sessions with a page and a browser each, MB (PSS)": ten / 1e6,
        f"{BROWSERS} sessions in one browser, part of {BROWSERS} browsers": one / ten,
        f"{BROWSERS} bare headless Chromiums with that page, MB (PSS)": bare / 1e6,
    }


def measure(*, quick: bool) -> Figures:
    """All of it. `quick`: fewer repetitions."""
    found = commands(50 if quick else 200)
    gateway = Tenure()
    print("sessions with processes …", file=sys.stderr)
    found |= crowd(gateway, 100 if quick else 1_000)
    if shutil.which("chromium"):
        print("browsers …", file=sys.stderr)
        found |= browsers(gateway)
    return found
