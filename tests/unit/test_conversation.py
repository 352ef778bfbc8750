"""What a conversation is made of."""

from __future__ import annotations

import json

import pytest

from tenure.conversation import as_object


@pytest.mark.parametrize("text", ["", "{}", '{"a": [1, null]}', '{"n": 123456789012345678901}'])
def test_arguments_are_an_object(text):
    assert as_object(text) == json.loads(text or "{}")


@pytest.mark.parametrize(
    "text",
    ["[]", "null", "{", '{"a": NaN}', '{"a": 1e999}', '{"a": "\\ud83d"}', "\ud83d", '{"a": "\ud83d"}',
     '{"a": ' + "[" * 5_000 + "]" * 5_000 + "}", "{} {}"],
)  # fmt: skip
def test_whatever_could_not_be_written_again_is_none(text):
    assert as_object(text) is None
