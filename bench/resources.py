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
from bench.gateways import Running, Tenure, npm
from tenure.clock import SystemClock
from tenure.config import LimitsConfig
from tenure.lifecycle.scope import Scope
from tenure.processes.quotas import Quotas, ceiling_of
from tenure.processes.spawn import Spawner
from tenure.sandbox.base import Order
from tenure.sandbox.local import Local

Figures = dict[str, float]
BROWSERS = 10
CONFIG = '[web]\nallow = ["127.0.0.1"]\n[sandbox]\nnetwork = true\n'
NPM = "2026.8.31"
REST_S = 45.0
"""After that long a page that stands still has given back what it does not need."""
CALM_S = 75.0
"""After that long the census looks twice a minute."""
BALLAST_BYTES = 1_500_000_000
PAGE = b"<html><body><h1>A page</h1>" + b"<p>Some words in a row.</p>" * 500 + b"</body></html>"


# --- shell commands -------------------------------------------------------------------------------


async def _commands(rounds: int) -> tuple[float, float]:
    """Medians in seconds, spawn to exit: ours in a sandbox `local`, and a bare Popen, in turn."""
    ours, bare = [], []
    root = Scope.root("bench", SystemClock())
    scope = root.child("session:bench")
    spawner = Spawner(instance="bench-0", environ=dict(os.environ), clock=SystemClock())
    limits = ceiling_of(LimitsConfig())
    spawner.quotas = Quotas(f"be4c400-{os.getpid():08x}", lambda: limits)  # with its group
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
    await root.close()
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
    """What the gateway's tree has now, and the files of its home that are not the database's.

    Args:
        running: the gateway.
        home: its home, beside which is the folder for its temporary files.
    """
    found = driver.footprint(running.pid)
    kept = ("tenure.db", "checkpoints", "spill", "logs")  # of the sessions, until they are deleted
    files = [p for p in home.rglob("*") if p.is_file() and not _kept(p.relative_to(home), kept)]
    held = {name: found[name] for name in ("threads", "fds", "processes")}
    return {
        **held,
        "files": float(len(files)),
        "temporary files": float(len(list((home.parent / "tmp").rglob("*")))),
        "cgroups": float(_groups(home)),
    }


def _groups(home: Path) -> int:
    """How many control groups the gateway has made."""
    mark = f"tenure.{json.loads((home / 'gateway.json').read_text())['instance']}."
    return sum(name.startswith(mark) for _, names, _ in os.walk("/sys/fs/cgroup") for name in names)


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
    sessions = []
    begun = time.perf_counter()
    for first in range(0, count, 20):
        some = range(first, min(count, first + 20))
        sessions += [await _one(wire, "go") for _ in some]
        for _ in some:
            await wire.until("message.complete")
    most, groups = driver.footprint(running.pid)["processes"], _groups(home)
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
        f"{label}: cgroups at the most": float(groups),
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
        (home / "tmp").mkdir()
        running = gateway.start(home, 0, f"scripted:{script}", TMPDIR=str(home / "tmp"))
        try:
            return asyncio.run(_crowd(running, home / "tenure", count))
        finally:
            running.stop()


# --- an idle census ---------------------------------------------------------------------------------


async def _one_job(running: Running) -> None:
    wire = await driver.Wire.open(running.url, running.token)
    await _one(wire, "go")
    await wire.until("message.complete")
    await wire.close()


def _woken(running: list[Running], seconds: float) -> list[int]:
    """How often each gateway wakes up: quarters of a second in which it ran, after one without."""
    count, awake = [0] * len(running), [False] * len(running)
    last = [driver.footprint(one.pid)["switches"] for one in running]
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(0.25)
        for n, one in enumerate(running):
            now = driver.footprint(one.pid)["switches"]
            count[n] += now > last[n] and not awake[n]
            awake[n], last[n] = now > last[n], now
    return count


def idle_census(gateway: Tenure, seconds: float) -> Figures:
    """What looking after a process that stands still adds to the wake-ups of a gateway without one."""
    start = {"name": "background", "arguments": {"action": "start", "command": "sleep 6000"}}
    with tempfile.TemporaryDirectory() as folder:
        running = []
        for name, steps in (("none", []), ("one", [{"call": start}])):
            home = Path(folder) / name
            home.mkdir()
            script = home / "script.json"
            script.write_text(json.dumps({"steps": [*steps, {"text": "Done."}]}))
            running.append(gateway.start(home, 0, f"scripted:{script}"))
        try:
            for one in running:
                asyncio.run(_one_job(one))
            time.sleep(CALM_S)
            none, one_more = _woken(running, seconds)
        finally:
            for one in running:
                one.stop()
    return {
        "wake-ups in 30 s, a session at rest": none / seconds * 30,
        "wake-ups in 30 s, a session at rest with a process": one_more / seconds * 30,
        "wake-ups in 30 s that its census adds": (one_more - none) / seconds * 30,
    }


# --- tool servers -----------------------------------------------------------------------------------


SERVERS = {
    "everything": ("echo", {"message": "hi"}, ["stdio"]),
    "filesystem": ("list_allowed_directories", {}, ["/usr/share"]),
    "memory": ("read_graph", {}, []),
}
"""Each with a tool, its arguments, and how it is started."""


async def _use_all(running: Running) -> int:
    """Sessions that each call a tool of each server; how many results were failures."""
    wire = await driver.Wire.open(running.url, running.token)
    tools = {f"mcp__{name}__{tool}" for name, (tool, _, _) in SERVERS.items()}
    failed = 0
    for _ in range(BROWSERS):
        session, _, _ = await driver.create(wire, auto_approve=True)
        while True:
            info = (await wire.call("session.resume", session_id=session))["info"]
            if all(tool in json.dumps(info["tools"]) for tool in tools):
                break
            await asyncio.sleep(0.1)
        await wire.call("prompt.submit", session_id=session, text="go")
        for _ in SERVERS:
            said = (await wire.until("tool.complete"))["payload"]
            failed += bool(said.get("is_error") or said.get("error"))
        await wire.until("message.complete")
    await wire.close()
    return failed


def _servers(gateway: Tenure, *, shared: bool) -> tuple[int, int]:
    """How many processes serve ten sessions' tools, and their memory (PSS)."""
    programs = npm("servers", *(f"@modelcontextprotocol/server-{name}@{NPM}" for name in SERVERS))
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        declared = {
            name: {"command": str(programs / f"mcp-server-{name}"), "args": args, "shared": shared}
            for name, (_, _, args) in SERVERS.items()
        }
        (home / "tenure").mkdir(mode=0o700)
        (home / "tenure/mcp.json").write_text(json.dumps({"mcpServers": declared}))
        calls = [
            {"call": {"name": f"mcp__{name}__{tool}", "arguments": arguments}}
            for name, (tool, arguments, _) in SERVERS.items()
        ]
        script = home / "script.json"
        script.write_text(json.dumps({"steps": [*calls, {"text": "Used."}], "loop": True}))
        running = gateway.start(home, 0, f"scripted:{script}", TENURE_SANDBOX="local")
        try:
            failed = asyncio.run(_use_all(running))
            assert not failed, f"{failed} calls failed"
            pids = [pid for pid in driver.tree(running.pid) if "mcp-server-" in _command(pid)]
            return len(pids), pss_bytes(pids)
        finally:
            running.stop()


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""


def servers(gateway: Tenure) -> Figures:
    """The three tool servers that everybody knows, shared by sessions and not."""
    (shared, shared_bytes), (own, own_bytes) = (
        _servers(gateway, shared=shared) for shared in (True, False)
    )
    label = f"{BROWSERS} sessions with the same three tool servers"
    return {
        f"{label}, shared: processes": float(shared),
        f"{label}, shared: MB (PSS)": shared_bytes / 1e6,
        f"{label}, each its own: processes": float(own),
        f"{label}, each its own: MB (PSS)": own_bytes / 1e6,
    }


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


def _kind(pid: int) -> str:
    """What a process of a gateway with a browser is."""
    command = _command(pid).replace("\0", " ")
    for part, kind in _KINDS.items():
        if part in command:
            return kind
    return "gateway"


_KINDS = {
    "--type=renderer": "renderers", "--type=gpu-process": "drawing", "--type=utility": "network",
    "--type=zygote": "zygotes", "--remote-debugging-pipe": "browser", "tenure.browser.host": "host",
    "playwright/driver": "driver",
}  # fmt: skip


def _by_kind(pids: list[int]) -> dict[str, int]:
    found: dict[str, int] = {}
    for pid in pids:
        kind = _kind(pid)
        found[kind] = found.get(kind, 0) + pss_bytes([pid])
    return found


def _grown(
    gateway: Tenure, home: Path, gateways: int, sessions: int, config: str = ""
) -> dict[str, int]:
    """Bytes (PSS) that so many gateways take more when each has so many sessions with a page."""
    running = [gateway.start(_place(home / str(n), config), 0, f"scripted:{home.parent}/script.json")
               for n in range(gateways)]  # fmt: skip
    try:
        time.sleep(3)
        trees = [driver.tree(one.pid) for one in running]
        before = _by_kind([pid for tree in trees for pid in tree])
        for one in running:
            asyncio.run(_look(one, sessions))
        time.sleep(REST_S)
        trees = [driver.tree(one.pid) for one in running]
        after = _by_kind([pid for tree in trees for pid in tree])
        return {kind: size - before.get(kind, 0) for kind, size in after.items()}
    finally:
        for one in running:
            one.stop()


def _place(folder: Path, config: str) -> Path:
    (folder / "tenure").mkdir(parents=True)
    (folder / "tenure/config.toml").write_text(CONFIG + config)
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
            time.sleep(REST_S)
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
        kinds = _grown(gateway, home / "one", 1, BROWSERS)
        one = sum(kinds.values())
        ten = sum(_grown(gateway, home / "ten", BROWSERS, 1).values())
        whole = f'[browser]\nexecutable = "{shutil.which("chromium")}"\n'
        full = sum(_grown(gateway, home / "full", BROWSERS, 1, whole).values())
        shared = sum(_grown(gateway, home / "whole", 1, BROWSERS, whole).values())
        bare = _bare_browsers(url)
    return {
        f"{BROWSERS} sessions with a page each, in one browser, MB (PSS)": one / 1e6,
        **{f"of that: {kind}, MB (PSS)": size / 1e6 for kind, size in sorted(kinds.items())},
        f"{BROWSERS} sessions with a page and a browser each, MB (PSS)": ten / 1e6,
        f"{BROWSERS} sessions in one browser, part of {BROWSERS} browsers": one / ten,
        f"{BROWSERS} sessions with a page and a whole Chromium each, MB (PSS)": full / 1e6,
        f"{BROWSERS} sessions with a page each, in one whole Chromium, MB (PSS)": shared / 1e6,
        f"{BROWSERS} sessions in one whole Chromium, part of {BROWSERS} of them": shared / full,
        f"{BROWSERS} bare headless Chromiums with that page, MB (PSS)": bare / 1e6,
    }


def measure(*, quick: bool) -> Figures:
    """All of it. `quick`: fewer repetitions."""
    found = commands(50 if quick else 200)
    gateway = Tenure()
    print("sessions with processes …", file=sys.stderr)
    found |= crowd(gateway, 100 if quick else 1_000)
    print("an idle census …", file=sys.stderr)
    found |= idle_census(gateway, 60 if quick else 180)
    if shutil.which("npm"):
        print("tool servers …", file=sys.stderr)
        found |= servers(gateway)
    if shutil.which("chromium"):
        print("browsers …", file=sys.stderr)
        found |= browsers(gateway)
    return found
