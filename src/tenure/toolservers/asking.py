"""What a tool server wants to know of the person: one question for each field of its form."""

from __future__ import annotations

from typing import Any

import mcp_types as types

from tenure.toolservers.calls import Ask, Asked

FIELDS_MAX = 12
CHOICES_MAX = 20
TEXT_CHARS_MAX = 1_000
DECLINE = "decline"


async def answer(params: Any, ask: Ask) -> types.ElicitResult | types.ErrorData:
    """Ask the person, field by field; declined as soon as one is not answered. Cancellable."""
    message = str(params.message)[:TEXT_CHARS_MAX]
    if params.mode == "url":
        told = f"{message}\nOpen this yourself, if you trust it: {str(params.url)[:2_000]}"
        said = await ask(Asked(told, ("done", DECLINE)))
        return types.ElicitResult(action="accept" if said == "done" else "decline")
    schema = params.requested_schema
    fields = schema.get("properties") or {}
    if len(fields) > FIELDS_MAX:
        return types.ErrorData(code=types.INVALID_REQUEST, message=f"over {FIELDS_MAX} fields")
    required = set(schema.get("required") or ())
    if not fields:
        said = await ask(Asked(message, ("accept", DECLINE)))
        return types.ElicitResult(action="accept" if said == "accept" else "decline", content={})
    content: dict[str, Any] = {}
    for name, field in fields.items():
        said = await ask(_asked(message, name, field, needed=name in required))
        if said is None or said == DECLINE:
            return types.ElicitResult(action="cancel" if said is None else "decline")
        if not said.strip() and "default" in field:
            content[name] = field["default"]
            continue
        if not said.strip() and name not in required:
            continue
        try:
            content[name] = value_of(said.strip(), field)
        except ValueError:
            return types.ElicitResult(action="cancel")
    return types.ElicitResult(action="accept", content=content)


def _asked(message: str, name: str, field: dict[str, Any], *, needed: bool) -> Asked:
    about = str(field.get("title") or name)
    more = f" ({field['description']})" if field.get("description") else ""
    default = f" [{field['default']}]" if "default" in field else ""
    optional = "" if needed else " (optional)"
    choices = tuple(str(value) for value in choices_of(field))[:CHOICES_MAX]
    question = f"{message}\n{about}{optional}{more}{default}"[: 2 * TEXT_CHARS_MAX]
    return Asked(question, (*choices, DECLINE) if choices else ())


def choices_of(field: dict[str, Any]) -> list[Any]:
    """What may be picked."""
    if field.get("type") == "boolean":
        return ["true", "false"]
    titled = field.get("oneOf") or field.get("anyOf")
    if isinstance(titled, list):
        return [one["const"] for one in titled if isinstance(one, dict) and "const" in one]
    found = field.get("enum")
    return found if isinstance(found, list) else []


def value_of(said: str, field: dict[str, Any]) -> Any:
    """An answer as the field wants it.

    Raises:
        ValueError: it cannot be.
    """
    kind = field.get("type")
    if kind == "boolean":
        if said.lower() in {"true", "yes", "y", "1"}:
            return True
        if said.lower() in {"false", "no", "n", "0"}:
            return False
        raise ValueError(said)
    if kind == "integer":
        return int(said)
    if kind == "number":
        return float(said)
    if kind == "array":
        return [part.strip() for part in said.split(",") if part.strip()]
    allowed = choices_of(field)
    if allowed and said not in map(str, allowed):
        raise ValueError(said)
    return said
