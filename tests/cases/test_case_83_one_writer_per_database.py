"""Case 83: one writer per database. A log that vanishes: tests/unit/store; commands: tests/rpc."""

from __future__ import annotations

import pytest

from tenure.config import Home
from tenure.errors import Conflict
from tenure.home import HomeLock, is_held


def test_a_second_gateway_on_one_home_is_refused_in_a_sentence(tmp_path):
    home = Home(tmp_path / "home", tmp_path / "cache")
    first = HomeLock.acquire(home)
    assert is_held(home)
    with pytest.raises(Conflict, match="already serves the home"):
        HomeLock.acquire(home)
    first.release()
    first.release()
    assert not is_held(home)
    HomeLock.acquire(home).release()
