"""Wrong values and spoilt texts, from a seed."""

from __future__ import annotations

import random
from typing import Any

NONSENSE: list[Any] = [
    None, True, 0, -1, 2**63, 2**70, 1.5, 1e308, "", " ", "x" * 9_000, "\0", "../../x", "/",
    [], [[]], {}, {"": None}, [None] * 50, "é" * 100, {"a": {"b": {"c": []}}},
]  # fmt: skip


def mutated(rnd: random.Random, whole: bytes) -> bytes:
    """A text with something cut, repeated, overwritten or inserted."""
    text = bytearray(whole)
    for _ in range(rnd.randrange(1, 4)):
        at, size = rnd.randrange(len(text) + 1), rnd.randrange(12)
        kind = rnd.randrange(4)
        if kind == 0:
            del text[at : at + size]
        elif kind == 1:
            text[at:at] = text[at : at + size]
        elif kind == 2:
            text[at : at + size] = rnd.randbytes(size)
        else:
            text[at:at] = rnd.choice(
                [b'"', b"{", b"]", b"\\u0000", b"null", b"1e999", b"\n\n", b"-"]
            )
    return bytes(text)


def spoilt(rnd: random.Random, value: Any, share: float = 0.1) -> Any:
    """A tree of plain values in which some are another kind of thing, gone, or twice."""
    if rnd.random() < share:
        return rnd.choice(NONSENSE)
    if isinstance(value, dict):
        kept = {key: one for key, one in value.items() if rnd.random() > share / 2}
        return {key: spoilt(rnd, one, share) for key, one in kept.items()}
    if isinstance(value, list):
        grown = value * 2 if rnd.random() < share else value
        return [spoilt(rnd, one, share) for one in grown]
    return value


def split(rnd: random.Random, whole: bytes, pieces: int = 4) -> list[bytes]:
    """`whole` in that many pieces, cut at any byte."""
    cuts = sorted(rnd.randrange(len(whole) + 1) for _ in range(pieces - 1))
    return [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
