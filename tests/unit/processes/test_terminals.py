"""A child's terminal: its bounds, and that nothing of it stays open."""

from __future__ import annotations

import os
import signal
import struct

import pytest

from tenure.errors import ProcessError
from tenure.processes import terminal
from tenure.processes.terminal import Screen, Terminal, open_pair
from tenure.testing.plugin import open_fds


def open_terminals():
    return {fd: at for fd, at in open_fds().items() if "ptmx" in at or "pts" in at}


def size(columns, rows):
    return struct.unpack("HHHH", Screen(columns, rows).packed())[:2]


def test_a_size_is_kept_within_bounds():
    assert size(0, -5) == (1, 1)
    assert size(10**9, 10**9) == (1_000, 1_000)
    assert size(99, 7) == (7, 99)


def test_a_terminal_that_cannot_be_set_up_leaves_nothing_open(monkeypatch):
    def refused(*_):
        raise OSError("no")

    monkeypatch.setattr(terminal.fcntl, "ioctl", refused)
    before = open_fds()
    with pytest.raises(OSError, match="no"):
        open_pair(Screen())
    assert open_fds() == before


def test_what_is_closed_is_neither_sized_nor_pressed_nor_closed_again():
    ours, theirs = open_pair(Screen())
    one = Terminal(ours)
    one.close()
    os.dup2(theirs, ours)  # another has that number now
    one.close()
    os.fstat(ours)
    assert not one.resize(Screen())
    assert not one.press(signal.SIGINT)
    os.close(ours)
    os.close(theirs)


def test_a_key_that_is_refused_is_told():
    ours, theirs = open_pair(Screen())
    one = Terminal(ours)
    assert not one.press(signal.SIGKILL)
    one.close()
    os.close(theirs)


async def test_what_cannot_start_on_a_terminal_leaves_none(world, spawner, tmp_path):
    before = open_terminals()
    with pytest.raises(ProcessError, match="working directory"):
        await spawner.spawn(world, ["true"], cwd=tmp_path / "none", screen=Screen())
    assert open_terminals() == before


async def test_the_exit_does_not_cut_off_what_a_terminal_still_hands_on(world, spawner):
    before = open_terminals()
    process = await spawner.spawn(world, ["true"], screen=Screen())
    await process.wait()
    assert not process.stdout._finished
    while await process.stdout.read():
        pass
    await process.stop()
    assert open_terminals() == before
