"""What the tests of models share."""

import pytest

from tenure.clock import SystemClock
from tenure.lifecycle.scope import Scope
from tenure.testing.clock import ManualClock
from tenure.testing.model_server import ModelServer


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
async def scope():
    root = Scope.root("test", SystemClock())
    yield root
    await root.close()


@pytest.fixture
async def server():
    async with ModelServer() as running:
        yield running
