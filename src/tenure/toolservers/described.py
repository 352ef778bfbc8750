"""A tool as its server describes it, within limits. Brings a library: imported late."""

from __future__ import annotations

from typing import Any

import msgspec
from jsonschema.validators import Draft202012Validator

from tenure.toolservers.catalog import Offer

SCHEMA_BYTES_MAX = 32 * 1024
DESCRIPTION_CHARS_MAX = 2_000
_SCHEMAS = Draft202012Validator(Draft202012Validator.META_SCHEMA)


def bounded(name: str, description: str, schema: Any, *, reads_only: bool = False) -> Offer:
    """A tool within limits: a schema that is too large or is none is left out, with a note.

    One that is none would cost more than its tool: providers refuse the whole request. It takes
    up to milliseconds.
    """
    about = description[:DESCRIPTION_CHARS_MAX]
    if not _is_usable(schema):
        note = "[The schema of its arguments cannot be shown.]"
        return Offer(name, f"{about} {note}".strip(), {"type": "object"}, reads_only)
    return Offer(name, about, {"type": "object", "properties": {}, **schema}, reads_only)


def _is_usable(schema: Any) -> bool:
    """Whether it is a JSON Schema of an object, small enough."""
    if not isinstance(schema, dict) or schema.get("type", "object") != "object":
        return False
    if len(msgspec.json.encode(schema)) > SCHEMA_BYTES_MAX:
        return False
    try:
        return bool(_SCHEMAS.is_valid(schema))
    except RecursionError:
        return False
