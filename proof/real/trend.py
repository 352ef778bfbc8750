"""Whether a series of figures grows."""

from __future__ import annotations

import statistics
from collections.abc import Sequence


def slope(points: Sequence[tuple[float, float]]) -> float:
    """The median of the slopes between all pairs of points (Theil and Sen).

    Nearly a third of the points may be off by anything (a table that has just doubled, a page that
    the allocator has not given back yet) without moving it.
    """
    slopes = [
        (y2 - y1) / (x2 - x1)
        for n, (x1, y1) in enumerate(points)
        for x2, y2 in points[n + 1 :]
        if x2 != x1
    ]
    return statistics.median(slopes) if slopes else 0.0


def last_half(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Those whose x is in the later half: what is filled once and bounded is full by then."""
    middle = (points[0][0] + points[-1][0]) / 2
    return [point for point in points if point[0] >= middle]
