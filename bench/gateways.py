"""The gateways under test: how each is installed, started and found ready."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CACHE = Path(__file__).parent / ".cache"
PEER = "hermes-agent==0.19.0"
TOKEN = "benchmark-token"


@dataclass
class Running:
    """A started gateway."""

    process: subprocess.Popen[str]
    url: str
    token: str
    pid: int
    ready_s: float

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def npm(name: str, *packages: str) -> Path:
    """The folder with the programs of packages from npm; installed once."""
    folder = CACHE / name
    programs, stamp = folder / "node_modules" / ".bin", folder / "bench-stamp"
    if not (stamp.exists() and stamp.read_text() == " ".join(packages)):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        print(f"installing {name} …", file=sys.stderr)
        command = ["npm", "install", "--no-fund", "--no-audit", "--silent", *packages]
        subprocess.run(command, check=True, cwd=folder)
        stamp.write_text(" ".join(packages))
    return programs


def venv(name: str, *install: list[str]) -> Path:
    """An environment of its own in the cache; made once for each set of commands."""
    folder = CACHE / name
    stamp = folder / "bench-stamp"
    key = json.dumps(install)
    if stamp.exists() and stamp.read_text() == key:
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    print(f"installing {name} …", file=sys.stderr)
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    for arguments in install:
        command = [folder / "bin/python", "-m", "pip", "install", "-q", *arguments]
        subprocess.run(command, check=True, cwd=ROOT)
    stamp.write_text(key)
    return folder


class Tenure:
    """Ours, from an installed wheel with bytecode."""

    name = "tenure"

    def __init__(self) -> None:
        self.folder = venv("tenure", ["--no-deps", "-r", "requirements.lock"])
        dist = CACHE / "dist"
        shutil.rmtree(dist, ignore_errors=True)
        pip = [self.folder / "bin/python", "-m", "pip"]
        build = [*pip, "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", dist, ROOT]
        subprocess.run(build, check=True)
        (wheel,) = dist.glob("*.whl")
        install = [*pip, "install", "-q", "--no-deps", "--force-reinstall", wheel]
        subprocess.run(install, check=True)

    def start(
        self, home: Path, model_port: int, model: str = "openai:stub", **more: str
    ) -> Running:
        environ = {
            "PATH": os.environ["PATH"], "HOME": str(home), "TENURE_HOME": str(home / "tenure"),
            "OPENAI_BASE_URL": f"http://127.0.0.1:{model_port}/v1", "OPENAI_API_KEY": "x",
        } | more  # fmt: skip
        command = [self.folder / "bin/tenure", "serve", "--port", "0", "--json", "--model",
                   model]  # fmt: skip
        begun = time.perf_counter()
        process = subprocess.Popen(
            command, env=environ, cwd=home, stdout=subprocess.PIPE, text=True
        )
        facts = json.loads(process.stdout.readline())
        ready_s = time.perf_counter() - begun
        token = (home / "tenure/token").read_text()
        return Running(process, facts["ready"], token, facts["pid"], ready_s)

    def help_s(self) -> float:
        begun = time.perf_counter()
        subprocess.run(
            [self.folder / "bin/tenure", "--help"], stdout=subprocess.DEVNULL, check=True
        )
        return time.perf_counter() - begun


class Peer:
    """hermes-agent, as its own documentation starts it."""

    name = PEER.replace("==", " ")

    def __init__(self) -> None:
        self.folder = venv("peer", [PEER])

    def start(self, home: Path, model_port: int) -> Running:
        folder = home / "peer"
        folder.mkdir(exist_ok=True)
        (folder / "config.yaml").write_text(
            f"model: {{provider: custom, default: stub-model, "
            f"base_url: 'http://127.0.0.1:{model_port}/v1', api_key: x}}\n"
        )
        environ = {
            "PATH": f"{self.folder}/bin:{os.environ['PATH']}", "HOME": str(home),
            "HERMES_HOME": str(folder), "HERMES_DASHBOARD_SESSION_TOKEN": TOKEN,
        }  # fmt: skip
        command = [self.folder / "bin/hermes", "serve", "--host", "127.0.0.1", "--port", "0"]
        begun = time.perf_counter()
        process = subprocess.Popen(
            command,
            env=environ,
            cwd=home,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        said = []
        for line in process.stdout:
            said.append(line)
            found = re.search(r"HERMES_BACKEND_READY port=(\d+)", line)
            if found:
                break
        else:
            raise SystemExit(f"the peer did not start: {''.join(said)[-2000:]}")
        ready_s = time.perf_counter() - begun
        url = f"ws://127.0.0.1:{found[1]}/api/ws"
        return Running(process, url, TOKEN, process.pid, ready_s)
