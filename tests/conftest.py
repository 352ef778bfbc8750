"""What every test may ask for."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

pytest.register_assert_rewrite("support")  # before it is imported: a failure in it says what was

from support.needs import need  # noqa: E402
from tenure.lifecycle.scope import Scope  # noqa: E402
from tenure.testing.clock import ManualClock  # noqa: E402

pytest_plugins = ["pytester"]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Look for the real parts that a test is marked with, before its fixtures use them."""
    for mark in item.iter_markers("needs"):
        for part in mark.args:
            need(part)


@pytest.fixture
def clock() -> ManualClock:
    """Time that stands still until the test advances it."""
    return ManualClock()


@pytest.fixture
async def root(clock: ManualClock) -> AsyncIterator[Scope]:
    """A root scope on `clock`; closed after the test, which must not leave it stuck."""
    scope = Scope.root("root", clock)
    yield scope
    await scope.close("test over", patience_s=None)
