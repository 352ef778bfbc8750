"""A home, a working directory and the command."""

from __future__ import annotations

import pytest

from support.commands import Place


@pytest.fixture
def place(tmp_path) -> Place:
    return Place(tmp_path)
