"""The arguments of a tool as the starter model is given them: a schema that any grammar can follow.

Tools come with whatever schema their servers have written: references, patterns, conditions. A
grammar that cannot be made of one would end every answer, so what is kept is what a grammar always
can follow, and what is left out the tool judges itself. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from tenure.conversation import ToolSpec

STRING_CHARS_MAX = 6_000
"""Characters of one argument; the window is too small for more."""
ITEMS_MAX = 100
DEPTH_MAX = 6
WAYS_MAX = 16
"""Values of an enumeration, alternatives, properties: of each, further ones are left out."""
ENUM_CHARS_MAX = 2_000
_PLAIN = {"integer", "number", "boolean", "null"}
_ANYTHING: dict[str, Any] = {}


def arguments_of(tool: ToolSpec) -> dict[str, Any]:
    """The arguments that the small model is shown, by name: the required ones, else the first.

    It fills whatever it sees, so optional arguments only invite mistakes.
    """
    properties = _mapping(tool.parameters.get("properties"))
    required = _strings(tool.parameters.get("required"))
    kept = {name: schema for name, schema in properties.items() if name in required}
    kept = kept or dict(list(properties.items())[:1])
    return {name: _Shaper(tool.parameters).shape(schema) for name, schema in kept.items()}


class _Shaper:
    """Makes simple schemas of those in one document.

    Args:
        document: what references point into.
    """

    def __init__(self, document: Mapping[str, Any]) -> None:
        self._document = document

    def shape(self, schema: Any, depth: int = 0) -> dict[str, Any]:
        """What is kept of a schema; nothing: anything will do."""
        if not isinstance(schema, dict) or depth > DEPTH_MAX:
            return _ANYTHING
        if "$ref" in schema:
            return self.shape(self._target(schema["$ref"]), depth + 1)
        if "const" in schema:
            return {"const": schema["const"]}
        if values := _listed(schema.get("enum")):
            return {"enum": values} if _length(values) <= ENUM_CHARS_MAX else _ANYTHING
        if ways := _ways(schema):
            return self._one_of(ways, depth)
        return self._of_type(schema.get("type"), schema, depth)

    def _one_of(self, ways: list[Any], depth: int) -> dict[str, Any]:
        shapes = [self.shape(way, depth + 1) for way in ways]
        return {"anyOf": shapes} if shapes and _ANYTHING not in shapes else _ANYTHING

    def _of_type(self, kind: Any, schema: dict[str, Any], depth: int) -> dict[str, Any]:
        if kind == "string":
            return {"type": "string", "maxLength": STRING_CHARS_MAX}
        if kind == "array":
            items = self.shape(schema.get("items"), depth + 1)
            return {"type": "array", "items": items, "maxItems": ITEMS_MAX}
        if kind == "object" or (kind is None and "properties" in schema):
            return self._object(schema, depth)
        return {"type": kind} if isinstance(kind, str) and kind in _PLAIN else _ANYTHING

    def _object(self, schema: dict[str, Any], depth: int) -> dict[str, Any]:
        properties = _mapping(schema.get("properties"))
        required = _strings(schema.get("required"))
        if not properties or not required <= properties.keys():
            return {"type": "object"}
        first = sorted(properties, key=lambda name: name not in required)[:WAYS_MAX]
        return {
            "type": "object",
            "properties": {name: self.shape(properties[name], depth + 1) for name in first},
            "required": [name for name in first if name in required],
            "additionalProperties": False,
        }

    def _target(self, reference: Any) -> Any:
        """What a reference into the same document points to; None: nothing that is here."""
        if not isinstance(reference, str) or not reference.startswith("#/"):
            return None
        found: Any = self._document
        for step in reference[2:].split("/"):
            name = step.replace("~1", "/").replace("~0", "~")
            found = found.get(name) if isinstance(found, Mapping) else None
        return found


def _ways(schema: dict[str, Any]) -> list[Any]:
    """The alternatives that a schema is made of; none: it is one by itself."""
    for key in ("anyOf", "oneOf"):
        if ways := _listed(schema.get(key)):
            return ways
    if ways := _listed(schema.get("allOf")):
        return ways if len(ways) == 1 else [True]  # several at once: anything
    kinds = _listed(schema.get("type"))
    return [{**schema, "type": kind} for kind in kinds if not isinstance(kind, list)]


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _listed(value: Any) -> list[Any]:
    return value[:WAYS_MAX] if isinstance(value, list) else []


def _strings(value: Any) -> set[str]:
    return {one for one in value if isinstance(one, str)} if isinstance(value, list) else set()


def _length(value: Any) -> int:
    return len(msgspec.json.encode(value))
