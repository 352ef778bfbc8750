"""Standing grants in their file: each once, for nobody else to read, all that was said."""

from __future__ import annotations

import asyncio
import stat

from tenure.config import ApprovalRule
from tenure.lifecycle.threads import call_in_thread
from tenure.sessions import grants as module
from tenure.sessions.grants import Grants
from tenure.testing.clock import settle
from tenure.testing.gates import ThreadGate


def rule(command: str) -> ApprovalRule:
    return ApprovalRule(decision="allow", tool="shell", command=command)


async def test_a_grant_is_kept_once_and_for_its_owner_alone(tmp_path):
    path = tmp_path / "grants.json"
    grants = Grants(path)
    await grants.add((rule("make"),))
    await grants.add((rule("make"), rule("ls")))
    assert Grants.load(path).rules == (rule("make"), rule("ls"))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


async def test_what_is_said_during_a_writing_is_written_whoever_leaves(tmp_path, monkeypatch):
    path, gate, real = tmp_path / "grants.json", ThreadGate(), module._replace

    def slow(path, content):
        gate.park()
        real(path, content)

    writings = []

    def begun(*args):
        writings.append(args)
        return call_in_thread(*args)

    monkeypatch.setattr(module, "_replace", slow)
    monkeypatch.setattr(module, "call_in_thread", begun)
    grants = Grants(path)
    first, second = grants.add((rule("make"),)), grants.add((rule("ls"),))
    await gate.wait_parked()
    assert len(writings) == 1, "the next one begins when this one is over"
    first.cancel()
    gate.release()
    async with asyncio.timeout(5):
        await second
    await settle()
    assert len(writings) == 2
    assert Grants.load(path).rules == (rule("make"), rule("ls"))
