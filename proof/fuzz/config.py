"""Whatever a file says, it is taken or refused in a sentence."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path

from proof.fuzz.nonsense import mutated
from tenure.config import Home, load
from tenure.errors import ConfigError

CONFIG = b"""[model]
default = "openai:stub"
[limits]
queue_max = 4
orphan_grace_s = 1.5
[server]
port = 9121
allow_hosts = ["a"]
[[approvals.rules]]
tool = "shell"
decide = "deny"
[providers.mine]
base_url = "http://localhost:1/v1"
"""


def config(rnd: random.Random, count: int) -> list[str]:
    found = []
    with tempfile.TemporaryDirectory(prefix="proof-") as name:
        home = Home(Path(name), Path(name) / "cache")
        for _ in range(count):
            text = mutated(rnd, CONFIG)
            home.config.write_bytes(text)
            try:
                load(home)
            except ConfigError:
                continue
            except Exception as exc:  # noqa: BLE001
                found.append(f"{exc!r} of {text!r}")
    return found
