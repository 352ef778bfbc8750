"""``python -m proof chaos``: the reported scenarios, on a real server, over real WebSockets.

Each scenario gets a gateway of its own. Afterwards everything is asked over the wire and looked at
from outside: see oracles.py.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from pathlib import Path

from proof.chaos.ground import Connection, Ground
from proof.chaos.inside import inside
from proof.chaos.oracles import check, ended
from proof.chaos.scenarios import SCENARIOS, Scenario
from proof.lifecycles import at_rest
from proof.real.gateway import Gateway, serving, write_script

REPORTED_S = 0.947
"""What was reported for the operations of the storm as calls within one process."""
BOUND_S = 300.0
"""No scenario may take longer: what waits for ever is wrong, too."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Of this command."""
    parser.add_argument("names", nargs="*", metavar="SCENARIO", help=", ".join(SCENARIOS))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=1, help="each with the next seed (1)")


def main(args: argparse.Namespace) -> int:
    """Run them; 0 if all oracles hold."""
    unknown = set(args.names) - SCENARIOS.keys()
    if unknown:
        print(f"There is no scenario {', '.join(sorted(unknown))}; see --help.")
        return 2
    failed = 0
    for seed in range(args.seed, args.seed + args.rounds):
        for name in args.names or SCENARIOS:
            failed += not _run(name, SCENARIOS[name], seed)
    print(f"{failed} scenarios failed" if failed else "all oracles hold")
    return bool(failed)


def _run(name: str, scenario: Scenario, seed: int) -> bool:
    with tempfile.TemporaryDirectory(prefix="proof-") as at:
        folder = Path(at)
        model = write_script(folder, scenario.steps, on=scenario.on)
        with serving(folder, model, scenario.config) as gateway:
            ground, took, wrong = asyncio.run(_on(gateway, scenario, seed))
            wrong += ended(gateway, gateway.stop())
    accepted = sum(map(len, ground.accepted.values()))
    refused = sum(ground.refused.values())
    print(f"{'ok   ' if not wrong else 'WRONG'} {took:7.2f} s  {scenario.about} (seed {seed}; "
          f"{accepted} prompts accepted, {refused} calls refused)", flush=True)  # fmt: skip
    for one in wrong[:20]:
        print(f"      {one}")
    if wrong:
        print(f"      python -m proof chaos {name} --seed {seed}")
    if name == "storm":
        _compare(scenario, seed, ground.clocked_s)
    return not wrong


async def _on(gateway: Gateway, scenario: Scenario, seed: int) -> tuple[Ground, float, list[str]]:
    wire = await gateway.wire()
    warm = await wire.create(auto_approve=True)  # what a first use imports and opens is no leak
    await wire.call("prompt.submit", session_id=warm, text="go")
    await wire.until("message.complete", warm)
    await wire.call("session.close", session_id=warm)
    before = await at_rest(gateway, wire)

    async def connect() -> Connection:
        return await gateway.wire()

    ground = Ground(connect, seed)
    begun = time.perf_counter()
    try:
        async with asyncio.timeout(BOUND_S):
            await scenario.run(ground)
            took = time.perf_counter() - begun
            wrong = await check(ground, gateway, wire, before)
    except TimeoutError:
        return ground, BOUND_S, [*ground.wrong, f"it did not end within {BOUND_S:.0f} s"]
    await wire.close()
    return ground, took, wrong


def _compare(scenario: Scenario, seed: int, ours_s: float) -> None:
    """The storm once more within this process."""

    async def run() -> float:
        with tempfile.TemporaryDirectory(prefix="proof-") as at:
            async with inside(Path(at), scenario.steps, seed) as ground:
                await scenario.run(ground)
                return ground.clocked_s

    within_s = asyncio.run(run())
    print(f"        the 1,200 operations: over real sockets {ours_s:.3f} s; "
          f"in one process {within_s:.3f} s; reported in one process {REPORTED_S} s")  # fmt: skip
