"""`tenure sessions list`, `search`, `pin`, `tag`, `archive`."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from tenure.cli.finding import marked, since_of
from tenure.errors import BadValue

NOW = datetime(2026, 2, 1, 12, tzinfo=UTC)


def ids(place, *args) -> list[str]:
    return [row["id"] for row in place.run("sessions", "list", "--json", *args).rows()]


def test_find_mark_and_hide(place):
    ref = place.script({"text": "Run bin/deploy, then check the dashboard."})
    place.run("run", "--model", ref, "How do I deploy the billing service?")
    place.run("run", "--model", ref, "Write a poem")
    poem, billing = ids(place)

    found = place.run("sessions", "search", "deploy", '"billing service"')
    assert found.code == 0 and billing in found.out and poem not in found.out
    assert "«deploy» the «billing service»" in found.out and "user: " in found.out
    (row,) = place.run("sessions", "search", "--json", "bill*").rows()
    assert row["session_id"] == billing and row["marks"]
    assert len(place.run("sessions", "search", "dashboard", "--json").rows()) == 2
    nothing = place.run("sessions", "search", "nowhere")
    assert nothing.code == 1 and "Nothing was found" in nothing.sentence
    assert place.run("sessions", "search", "?!").code == 2

    assert "pinned" in place.run("sessions", "pin", billing[-6:]).err
    assert "#work" in place.run("sessions", "tag", billing, "work", "q3").err
    assert ids(place) == [billing, poem] == ids(place, "--since", "1d")
    assert ids(place, "--pinned") == [billing] == ids(place, "--tag", "work")
    assert "#q3 #work" in place.run("sessions", "list").out
    assert ids(place, "--since", "2099-01-01") == []
    assert place.run("sessions", "show", "last").out.startswith("› Write a poem")
    place.run("sessions", "tag", billing, "--remove", "work")
    place.run("sessions", "pin", "--off", billing)
    assert ids(place, "--tag", "work") == [] == ids(place, "--pinned")

    assert "archived" in place.run("sessions", "archive", poem).err
    assert ids(place) == [billing] and ids(place, "--archived") == [poem]
    assert place.run("sessions", "show", poem[-6:]).code == 0  # still found by name
    place.run("sessions", "archive", "--off", poem)
    assert ids(place) == [poem, billing]
    assert place.run("sessions", "tag", poem, "Not A Tag").code == 2
    assert place.run("sessions", "list", "--since", "soon").code == 2


@pytest.mark.parametrize(("text", "expected"), [
    ("", 0.0), ("30m", NOW.timestamp() - 1800), ("12h", NOW.timestamp() - 43_200),
    ("3d", NOW.timestamp() - 3 * 86_400), ("2w", NOW.timestamp() - 14 * 86_400),
    ("2026-01-31T12:00+00:00", NOW.timestamp() - 86_400),
])  # fmt: skip
def test_times_as_people_write_them(text, expected):
    assert since_of(text, NOW) == expected


@pytest.mark.parametrize("text", ["soon", "3", "-3d", "1e9d", "2026-13-01", "99999-01-01"])
def test_what_is_no_time_is_told(text):
    with pytest.raises(BadValue, match="is no time"):
        since_of(text, NOW)


def test_a_snippet_brings_no_control_characters_to_the_terminal():
    assert marked("a \x1b[31mred\x1b[0m b", [[0, 1], [14, 15]], ("<", ">")).count("\x1b") == 0
    assert marked("one two", [[4, 7]], ("<", ">")) == "one <two>"
