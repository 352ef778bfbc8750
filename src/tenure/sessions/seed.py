"""A history that a client brings along when it creates a session."""

from __future__ import annotations

from typing import Any

from tenure.conversation import Message
from tenure.errors import BadValue
from tenure.store.base import ItemRow

SEED_MAX = 2000


def seed_items(messages: list[dict[str, Any]]) -> list[ItemRow]:
    """``[{role, content|text}]`` as entries of history.

    Raises:
        BadValue: naming the entry that is wrong.
    """
    if len(messages) > SEED_MAX:
        raise BadValue(f"A session can begin with {SEED_MAX} messages at the most.")
    items = []
    for n, message in enumerate(messages, start=1):
        role, text = message.get("role"), message.get("content", message.get("text"))
        if role not in {"user", "assistant"} or not isinstance(text, str):
            raise BadValue(
                f"messages[{n - 1}] needs a role (user or assistant) and a text content."
            )
        items.append(ItemRow(n, "", "message", Message(role, text)))
    return items
