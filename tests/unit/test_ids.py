"""Ids and names: what is built from outside text is checked first."""

from __future__ import annotations

import pytest

from tenure.errors import BadValue
from tenure.ids import checked_name, checked_session_id, new_session_id, whole_number

BAD = [
    "../x",
    "/etc/passwd",
    "a\0b",
    "x" * 500,
    "",
    "CON",
    "con",
    "a/b",
    "..",
    "20260101_000000_0000000g",
    "a b",
]


@pytest.mark.parametrize("text", BAD)
def test_what_is_no_session_id_is_refused_in_a_sentence(text):
    with pytest.raises(BadValue) as caught:
        checked_session_id(text)
    assert len(caught.value.message) < 300


@pytest.mark.parametrize("text", [text for text in BAD if not text.startswith("2026")])
def test_what_may_not_name_a_file_is_refused(text):
    with pytest.raises(BadValue):
        checked_name(text, "profile")


def test_a_fresh_id_passes_and_sorts_by_time():
    first, second = new_session_id(1_800_000_000.0), new_session_id(1_800_000_001.0)
    assert checked_session_id(first) < checked_session_id(second)
    assert checked_name("work-1", "profile") == "work-1"


def test_whatever_is_typed_is_a_number_or_none():
    assert [whole_number(text) for text in ("0", "007", "9" * 15)] == [0, 7, 10**15 - 1]
    for text in ("", "-1", "1.5", " 1", "1\n", "\N{SUPERSCRIPT TWO}", "\u0661", "9" * 5_000):
        assert whole_number(text) is None
