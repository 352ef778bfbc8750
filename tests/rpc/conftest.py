"""One gateway and one client per test."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from support.rpc import Rig
from tenure.config import ApprovalRule, ApprovalsConfig, Config
from tenure.models.script import Script
from tenure.testing.gateway import open_test_gateway
from tenure.tools.registry import tools_for

RULES = (ApprovalRule("deny", tool="shell", command="rm *"),)


@pytest.fixture
def steps() -> list:
    """What the model says; a test file may replace it."""
    return [{"text": "First answer."}, {"text": "Second answer."}, {"text": "Third answer."}]


@pytest.fixture
async def rig(tmp_path, steps) -> AsyncIterator[Rig]:
    config = Config(approvals=ApprovalsConfig(rules=RULES))
    async with open_test_gateway(
        tmp_path, Script(steps), config=config, tools=tools_for
    ) as gateway:
        client, _ = await gateway.client()
        yield Rig(gateway, client)
