"""The generated reference says what the code says."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec
import pytest

from tenure.protocol.events import EVENTS
from tenure.protocol.methods import METHODS
from tenure.protocol.schema import _plain, _type, document, files, schema

DOCS = Path(__file__).parents[3] / "docs"


@pytest.mark.parametrize("name", ["protocol.md", "protocol.schema.json"])
def test_what_is_committed_is_what_would_be_generated(name):
    found = (DOCS / name).read_text(encoding="utf-8")
    assert found == files()[name], "run: python -m tenure.protocol.schema"


def test_every_method_and_event_is_in_both():
    text, made = document(), schema()
    for name in (*METHODS, *EVENTS):
        assert f"### {name}\n" in text
    assert set(made["methods"]) == set(METHODS) and set(made["events"]) == set(EVENTS)
    assert made["$defs"]["PromptSubmit"]["required"] == ["session_id", "text"]
    assert "cwd" in made["$defs"]["SessionCreate"]["properties"]


def test_the_notes_below_fields_are_taken_over():
    assert "| `session_id` | str |  | The id, or an exact title. |" in document()


def test_a_bound_reads_the_same_as_60_and_as_60_0():
    assert _type(Annotated[float, msgspec.Meta(le=61.0)]).endswith("le=61)]")
    assert _plain({"maximum": 61.0, "of": [0.5, 2.0]}) == {"maximum": 61, "of": [0.5, 2]}
    assert str(_plain([61.0])) == "[61]"
