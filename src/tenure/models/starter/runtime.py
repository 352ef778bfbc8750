"""The runtime child: ``python -P -m tenure.models.starter.runtime``.

It reads one JSON line (`Orders`) on its input, loads the model, serves it on a keyed loopback
port, says so in one JSON line (`Report`) on its output, and ends when its input ends, so it cannot
outlive the gateway that holds the other end. The key comes on the input, never as an argument.

The wheel of xllamacpp is compiled for AVX2, FMA, F16C and BMI2 and would die of an illegal
instruction elsewhere, so the processor is asked before the import.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import IO

import msgspec

NEEDED_FLAGS = ("avx2", "fma", "f16c", "bmi2")
BATCH_TOKENS = 128
"""A cancelled prompt stops between batches: 2.5 s of work at the most, instead of 24 (measured)."""
PROMPT_CACHE_MIB = 512
"""Memory for the states of conversations that no slot holds."""


class Orders(msgspec.Struct, frozen=True):
    """What the gateway wants.

    Attributes:
        model: the GGUF file.
        key: the API key to ask for.
        states: folder for saved prompt states.
        threads: computing threads.
        context_tokens: window of one slot.
        slots: answers at the same time.
    """

    model: str
    key: str
    states: str
    threads: int
    context_tokens: int
    slots: int


class Report(msgspec.Struct, frozen=True):
    """What became of it: `url` where it serves, or `failed`, a sentence."""

    url: str = ""
    load_s: float = 0.0
    version: str = ""
    failed: str = ""


def missing_flags(cpuinfo: str) -> list[str]:
    """The needed processor features that ``/proc/cpuinfo`` does not list."""
    for line in cpuinfo.splitlines():
        name, _, flags = line.partition(":")
        if name.strip() == "flags":
            have = set(flags.split())
            return [flag for flag in NEEDED_FLAGS if flag not in have]
    return []  # no such line: not x86, where the wheel is another one


def serve(orders: Orders) -> tuple[object, Report]:
    """Load and serve; the server object ends with the process."""
    lacking = missing_flags(Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace"))
    if lacking:
        names = ", ".join(flag.upper() for flag in lacking)
        return None, Report(
            failed=f"The starter model cannot run on this processor: it lacks {names}. "
            "Use a provider with a key, or a local OpenAI-compatible server."
        )
    try:
        import xllamacpp
    except ImportError as exc:
        return None, Report(
            failed=f"The starter model cannot run here: xllamacpp is not usable ({exc}). "
            "Its wheel exists for Linux on x86-64; elsewhere use a provider with a key."
        )
    params = xllamacpp.CommonParams()
    params.model.path = orders.model
    params.api_keys = [orders.key]
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.ui = False
    params.cors_origins = ""
    params.n_parallel = orders.slots
    params.n_ctx = orders.slots * orders.context_tokens
    params.n_batch = params.n_ubatch = BATCH_TOKENS
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = orders.threads
    params.slot_save_path = f"{orders.states}/"
    params.cache_ram_mib = PROMPT_CACHE_MIB
    # Repacking weights would cost 1.2 s at each start and 0.6 GB for 10 % more speed (measured).
    params.no_extra_bufts = True
    params.warmup = False
    params.fit_params = False  # it would read the model twice, for devices that are not used
    params.verbosity = 1
    began = time.monotonic()
    try:
        server = xllamacpp.Server(params)
    except (RuntimeError, ValueError) as exc:
        return None, Report(failed=f"The model file {orders.model} cannot be loaded: {exc}.")
    load_s = time.monotonic() - began
    return server, Report(server.listening_address, load_s, xllamacpp.__version__)


def main() -> int:
    """Serve until the input ends."""
    reports: IO[bytes] = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever the library prints must not stand between our lines
    orders = msgspec.json.decode(sys.stdin.buffer.readline(), type=Orders)
    server, report = serve(orders)
    reports.write(msgspec.json.encode(report) + b"\n")
    reports.flush()
    if server is None:
        return 1
    sys.stdin.buffer.read()
    reports.flush()
    os._exit(0)  # the library's own teardown may wait for a computation


if __name__ == "__main__":
    sys.exit(main())
