"""Importing any module of ours starts nothing, opens nothing and changes nothing."""

from __future__ import annotations

import json
import subprocess
import sys

PROBE = """
import importlib, json, os, pkgutil, signal, sys, threading, warnings
sys.path.insert(0, sys.argv[1])
# What third parties open with their first import is theirs.
for name in ("uvloop", "sqlalchemy", "httpx", "uvicorn", "websockets", "typer", "rich", "prompt_toolkit",
             "msgspec", "psutil", "pytest", "asyncio", "tree_sitter"):
    try:
        importlib.import_module(name)
    except ImportError:
        pass
import tenure

def state():
    return {
        "threads": sorted(t.name for t in threading.enumerate()),
        "fds": len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0,
        "environ": dict(os.environ),
        "cwd": os.getcwd(),
        "signals": [str(signal.getsignal(s)) for s in (2, 13, 15, 17)],
        "umask": os.umask(0o22) and None,
        "excepthook": sys.excepthook.__qualname__,
    }

bad = {}
for info in pkgutil.walk_packages(tenure.__path__, "tenure."):
    before = state()
    if info.name.rpartition(".")[2] in ("__main__", "env"):
        continue
    try:
        importlib.import_module(info.name)
    except ImportError as exc:
        bad[info.name] = repr(exc)
        continue
    after = state()
    if before != after:
        bad[info.name] = [key for key in before if before[key] != after[key]]
print(json.dumps(bad))
"""


def test_importing_has_no_effect(root):
    done = subprocess.run(
        [sys.executable, "-c", PROBE, str(root / "src")], capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout.splitlines()[-1]) == {}
