"""Arguments for the starter: whatever their schema is, the engine makes a grammar of it."""

from __future__ import annotations

import json

import pytest
from llguidance import LLMatcher

from tenure.conversation import ToolSpec
from tenure.models.starter.prompt import grammar
from tenure.models.starter.schemas import DEPTH_MAX, WAYS_MAX, arguments_of

TEXT = {"type": "string", "maxLength": 6_000}
DEFS = {
    "name": {"type": "string", "minLength": 2, "pattern": "("},
    "a/b~c": {"type": "integer", "minimum": 5, "maximum": 3},
    "loop": {"type": "object", "properties": {"more": {"$ref": "#/$defs/loop"}}},
}
KEPT = [
    ({"type": "string", "format": "weird", "default": "a", "description": "d"}, TEXT),
    ({"$ref": "#/$defs/name"}, TEXT),
    ({"$ref": "#/$defs/a~1b~0c"}, {"type": "integer"}),
    ({"allOf": [{"$ref": "#/$defs/name"}]}, {"anyOf": [TEXT]}),
    ({"oneOf": [{"type": "null"}, {"type": "number"}]}, {"anyOf": [{"type": "null"}, {"type": "number"}]}),
    ({"type": ["string", "null"]}, {"anyOf": [TEXT, {"type": "null"}]}),
    ({"type": "array", "uniqueItems": True, "items": TEXT}, {"type": "array", "items": TEXT, "maxItems": 100}),
    ({"enum": ["a", 1, None]}, {"enum": ["a", 1, None]}),
    ({"const": {"a": [1]}}, {"const": {"a": [1]}}),
    ({"type": "object", "properties": {"a": {}}, "required": ["b"]}, {"type": "object"}),
]  # fmt: skip
ANYTHING = [
    True, False, None, 5, [], {}, {"not": {}}, {"if": {}}, {"type": "strin"}, {"type": []}, {"type": [5]},
    {"enum": []}, {"enum": ["x" * 3_000]}, {"$ref": "#/$defs/none"}, {"$ref": "https://a/b"}, {"$ref": 5},
    {"$ref": "#/$defs/name/type"}, {"anyOf": [{}, TEXT]}, {"allOf": [TEXT, {"type": "integer"}]},
]  # fmt: skip


def tool(schema):
    parameters = {"properties": {"x": schema}, "required": ["x"], "$defs": DEFS}
    return ToolSpec("t", "", parameters)


def assert_a_grammar(*tools):
    problem = LLMatcher.validate_grammar(grammar(tools, text_only=False))
    assert not problem, problem[:500]


@pytest.mark.parametrize(("schema", "kept"), KEPT)
def test_what_a_grammar_can_follow_is_kept(schema, kept):
    assert arguments_of(tool(schema)) == {"x": kept}
    assert_a_grammar(tool(schema))


@pytest.mark.parametrize("schema", ANYTHING)
def test_what_it_cannot_follow_is_anything(schema):
    assert arguments_of(tool(schema)) == {"x": {}}
    assert_a_grammar(tool(schema))


def test_a_schema_that_holds_itself_has_an_end():
    found, depth = arguments_of(tool({"$ref": "#/$defs/loop"}))["x"], 0
    while found:
        found, depth = found["properties"]["more"], depth + 1
    assert 0 < depth <= DEPTH_MAX
    assert_a_grammar(tool({"$ref": "#/$defs/loop"}))


def test_a_large_schema_keeps_what_is_required():
    names = [f"p{n:02}" for n in range(40)]
    schema = {"type": "object", "properties": dict.fromkeys(names, TEXT), "required": names[-3:]}
    kept = arguments_of(tool(schema))["x"]
    assert len(kept["properties"]) == WAYS_MAX and kept["required"] == names[-3:]


@pytest.mark.parametrize(
    "parameters", [{}, {"properties": []}, {"properties": {}, "required": "x"}]
)
def test_no_arguments_that_can_be_read_are_none(parameters):
    assert arguments_of(ToolSpec("t", "", parameters)) == {}
    assert_a_grammar(ToolSpec("t", "", parameters))


def test_all_of_them_in_one_request():
    schemas = [schema for schema, _ in KEPT] + ANYTHING
    tools = [ToolSpec(f"t{n}", "", tool(one).parameters) for n, one in enumerate(schemas)]
    assert_a_grammar(*tools)
    assert json.dumps([arguments_of(one) for one in tools]).count("$ref") == 0
