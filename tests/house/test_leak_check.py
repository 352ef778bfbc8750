"""The leak check must itself fail where something is left behind, and only there."""

from __future__ import annotations

import pytest

CLEAN = """
import asyncio, threading, tempfile, subprocess, sys

def test_sync():
    with tempfile.TemporaryFile() as file:
        file.write(b"x")
    thread = threading.Thread(target=lambda: None)
    thread.start()
    subprocess.run([sys.executable, "-c", ""], check=True)

async def test_async():
    task = asyncio.get_running_loop().create_task(asyncio.sleep(0))
    await task
"""

LEAKS = {
    "task": """
import asyncio
async def test_leak():
    global task
    task = asyncio.get_running_loop().create_task(asyncio.Event().wait())
""",
    "task_of_fixture": """
import asyncio, pytest
@pytest.fixture
async def thing():
    global task
    task = asyncio.get_running_loop().create_task(asyncio.Event().wait())
async def test_leak(thing): ...
""",
    "task_of_run": """
import asyncio
async def main():
    global task
    task = asyncio.get_running_loop().create_task(asyncio.Event().wait())
def test_leak():
    asyncio.run(main())
""",
    "thread": """
import threading
gate = threading.Event()
def test_leak():
    threading.Thread(target=gate.wait, daemon=True).start()
""",
    "descriptor": """
import os
def test_leak():
    os.pipe()
""",
    "child": """
import os, subprocess
def test_leak():
    global child
    child = subprocess.Popen(["sleep", "20"])
def test_then_end_it():
    child.kill(); child.wait()
""",
    "zombie": """
import os
def test_leak():
    if os.fork() == 0:
        os._exit(0)
""",
    "temporary": """
import tempfile
def test_leak():
    tempfile.mkdtemp()
""",
    "limit": """
import resource
def test_leak():
    soft, hard = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (0 if soft else 1, hard))
""",
    "variable": """
import os
def test_leak():
    os.environ["LEFT"] = "1"
""",
    "handler": """
import signal
def test_leak():
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
""",
    "interval": """
import sys
def test_leak():
    sys.setswitchinterval(0.25)
""",
    "never_awaited": """
import asyncio
async def test_leak():
    asyncio.sleep(1)
""",
    "unraisable": """
class Bad:
    def __del__(self): raise ValueError("in del")
def test_leak():
    first, second = Bad(), Bad()
    first.other, second.other = second, first
""",
}


NOT_OURS = {"never_awaited", "unraisable"}
"""Kinds which pytest itself reports, once the collection in the plugin has brought them to light."""


def _run(pytester: pytest.Pytester) -> pytest.RunResult:
    pytester.makeini(
        "[pytest]\nasyncio_mode = auto\nfilterwarnings = error\n"
        "asyncio_default_fixture_loop_scope = function\n"
    )
    return pytester.runpytest_subprocess(
        "--disable-plugin-autoload", "-p", "pytest_asyncio.plugin", "-p", "tenure.testing.plugin",
        "-p", "no:cacheprovider", "-rA",
    )  # fmt: skip


def test_clean_tests_pass(pytester: pytest.Pytester):
    pytester.makepyfile(CLEAN)
    _run(pytester).assert_outcomes(passed=2)


def test_each_leak_fails(pytester: pytest.Pytester):
    pytester.makepyfile(**{f"test_{kind}": source for kind, source in LEAKS.items()})
    pytester.makeconftest(
        "import tenure.testing.plugin as p\np.SETTLE_S = 0.2"
    )  # they are for good
    result = _run(pytester)
    told = result.stdout.str()
    for kind in LEAKS:
        assert f"ERROR test_{kind}.py::test_leak" in told or (
            kind in NOT_OURS and f"FAILED test_{kind}.py::test_leak" in told
        ), f"{kind} went unnoticed:\n{told}"
    assert told.count("left behind: ") >= len(LEAKS) - len(NOT_OURS)
