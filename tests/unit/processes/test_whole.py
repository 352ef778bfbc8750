"""What is set for the whole process ends with the gateway that set it."""

from __future__ import annotations

import gc
import os
import sys

from tenure.processes.brand import read_brand
from tenure.processes.whole import WholeProcess, calm_collector

FIRST, SECOND = "abcdef0-00000042", "abcdef0-00000043"


def _now():
    return read_brand(os.getpid()), sys.getswitchinterval(), gc.get_threshold()


def test_all_is_as_before():
    before = _now()
    whole = WholeProcess.claim(FIRST)
    calm_collector()
    assert read_brand(os.getpid()) == FIRST
    assert all(now != then for now, then in zip(_now(), before, strict=True))
    whole.put_back()
    assert _now() == before


def test_a_gateway_that_ends_leaves_the_mark_of_one_that_started_after_it():
    first = WholeProcess.claim(FIRST)
    second = WholeProcess.claim(SECOND)
    first.put_back()
    assert read_brand(os.getpid()) == SECOND
    second.put_back()
    assert read_brand(os.getpid()) == FIRST, "it puts back what it found"
    first.put_back()
    assert read_brand(os.getpid()) == ""


def test_one_within_another_gives_it_its_mark_back():
    outer = WholeProcess.claim(FIRST)
    WholeProcess.claim(SECOND).put_back()
    assert read_brand(os.getpid()) == FIRST
    outer.put_back()


def test_what_is_no_mark_is_not_worn():
    before = _now()
    WholeProcess.claim("no mark").put_back()
    assert _now() == before
