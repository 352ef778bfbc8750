"""A schedule as a short word: ``scenario~mode+strategy``, to be run again with ``replay``.

The strategy is ``r`` (walk) or ``p`` (priorities) with its seed, or ``d`` with the deviations
themselves: pairs of (choices since the last one, option), seven bits a byte, in base 32.
"""

from __future__ import annotations

import base64
from typing import NamedTuple

from proof.loop import Mode
from proof.options import Strategy
from proof.strategies import Given, Priorities, Walk

_MODES: dict[str, Mode] = {"e": "external", "a": "any"}


class Token(NamedTuple):
    """What is needed to run a schedule again.

    Attributes:
        scenario: its name.
        mode: of the loop.
        faults: how many there may be.
        how: the strategy in a word.
    """

    scenario: str
    mode: Mode
    faults: int
    how: str

    def __str__(self) -> str:
        return f"{self.scenario}~{self.mode[0]}{self.faults}{self.how}"

    @classmethod
    def parse(cls, text: str) -> Token:
        """The token that was printed as `text`.

        Raises:
            ValueError: it is none.
        """
        scenario, _, rest = text.strip().rpartition("~")
        if not scenario or len(rest) < 3 or rest[0] not in _MODES or not rest[1].isdigit():
            raise ValueError(f"{text!r} is no token; one looks like close-against-build~e0r1f")
        token = cls(scenario, _MODES[rest[0]], int(rest[1]), rest[2:])
        token.strategy()
        return token

    def strategy(self) -> Strategy:
        """A fresh strategy that makes its choices.

        Raises:
            ValueError: there is no such strategy.
        """
        kind, rest = self.how[0], self.how[1:]
        if kind == "r":
            return Walk(int(rest, 36))
        if kind == "p":
            return Priorities(int(rest, 36))
        if kind == "d":
            return Given(unpack(rest))
        raise ValueError(f"{self.how!r} names no strategy: r and p have a seed, d has deviations")


def seeded(kind: str, seed: int) -> str:
    """The strategy of that kind and seed as a word."""
    digits = ""
    while seed or not digits:
        seed, digit = divmod(seed, 36)
        digits = "0123456789abcdefghijklmnopqrstuvwxyz"[digit] + digits
    return kind + digits


def pack(deviations: dict[int, int]) -> str:
    """Deviations as a word."""
    raw = bytearray()
    before = 0
    for place in sorted(deviations):
        for number in (place - before, deviations[place]):
            left = number
            while left > 127:
                raw.append(left & 127 | 128)
                left >>= 7
            raw.append(left)
        before = place
    return "d" + base64.b32encode(bytes(raw)).decode().rstrip("=").lower()


def unpack(word: str) -> dict[int, int]:
    """The deviations of a word that `pack` made, without its d.

    Raises:
        ValueError: it is none.
    """
    raw = base64.b32decode(word.upper() + "=" * (-len(word) % 8))
    numbers, left, shift = [], 0, 0
    for byte in raw:
        left |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            numbers.append(left)
            left = shift = 0
    place, found = 0, {}
    for step, option in zip(numbers[::2], numbers[1::2], strict=True):
        place += step
        found[place] = option
    return found
