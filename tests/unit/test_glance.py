"""A look at the outside, shared by all who want it in one turn of the loop."""

from __future__ import annotations

import asyncio

import pytest

from tenure.glance import Glance


class Outside:
    """Something that changes; how often it was looked at."""

    def __init__(self) -> None:
        self.looks = 0

    def look(self) -> int:
        self.looks += 1
        if self.looks == 1:
            raise OSError("not yet")
        return self.looks


async def test_one_look_in_a_turn_of_the_loop_and_a_fresh_one_in_the_next():
    outside = Outside()
    glance = Glance(outside.look)
    with pytest.raises(OSError, match="not yet"):
        glance()  # a failed look is not kept
    assert [glance(), glance(), glance()] == [2, 2, 2]
    await asyncio.sleep(0)
    assert [glance(), glance()] == [3, 3]


def test_without_a_loop_each_call_looks():
    outside = Outside()
    outside.looks = 1
    glance = Glance(outside.look)
    assert [glance(), glance()] == [2, 3]
