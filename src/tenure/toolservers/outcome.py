"""What a tool server answers, as text within limits."""

from __future__ import annotations

import json
from typing import Any

from tenure.toolservers.calls import Outcome

RESOURCE_CHARS_MAX = 200_000


def outcome_of(result: Any) -> Outcome:
    """The result of a call as text: what is no text is named, with its size."""
    parts = [shown_block(block) for block in result.content]
    structured = result.structured_content
    if structured is not None and not any(parts):
        parts = [json.dumps(structured, ensure_ascii=False, default=str)]
    return Outcome("\n".join(part for part in parts if part), bool(result.is_error))


def shown_block(block: Any) -> str:
    """A piece of content as text."""
    if block.type == "text":
        return str(block.text)
    if block.type in {"image", "audio"}:
        return f"[{block.type} {block.mime_type}, {len(block.data) * 3 // 4} bytes, not shown]"
    if block.type == "resource_link":
        return f"[resource {block.uri}: {block.name}]"
    if block.type == "resource":
        return _content(block.resource)
    return f"[{block.type}]"


def shown_resource(result: Any) -> str:
    """What was read of a resource."""
    return "\n".join(_content(content) for content in result.contents)[:RESOURCE_CHARS_MAX]


def _content(content: Any) -> str:
    text = getattr(content, "text", None)
    if text is not None:
        return f"[{content.uri}]\n{text}"
    return f"[{content.uri}: {content.mime_type}, {len(content.blob) * 3 // 4} bytes, not shown]"
