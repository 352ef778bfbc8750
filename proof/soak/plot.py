"""Series over time, as text for a terminal and as a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from PIL import Image, ImageDraw

Points = Sequence[tuple[float, float]]
BLOCKS = "▁▂▃▄▅▆▇█"
WIDTH, HEIGHT, LEFT, TOP = 900, 120, 120, 22


def text(series: Mapping[str, Points]) -> str:
    """A line for each: its name, its least and greatest, its course."""
    return "\n".join(_line(name, [y for _, y in points]) for name, points in series.items())


def _line(name: str, values: list[float], cells: int = 60) -> str:
    if not values:
        return f"{name:>12}  nothing"
    step = max(1, len(values) // cells)
    some = [max(values[at : at + step]) for at in range(0, len(values), step)]
    low, high = min(some), max(some)
    scale = (len(BLOCKS) - 1) / (high - low) if high > low else 0.0
    course = "".join(BLOCKS[int((value - low) * scale)] for value in some)
    return f"{name:>12}  {low:>12,.0f} … {high:>12,.0f}  {course}"


def png(path: Path, under_load: Mapping[str, Points], at_rest: Mapping[str, Points]) -> None:
    """One panel for each: what was under load as a line, what was at rest as dots.

    Args:
        path: of the picture.
        under_load: by name; points are seconds and values.
        at_rest: likewise.
    """
    names = [*dict.fromkeys([*under_load, *at_rest])]
    image = Image.new("RGB", (WIDTH, HEIGHT * len(names)), "white")
    draw = ImageDraw.Draw(image)
    for n, name in enumerate(names):
        line, dots = under_load.get(name, ()), at_rest.get(name, ())
        every = [*line, *dots]
        if not every:
            continue
        end = max(x for x, _ in every) or 1.0
        high = max(y for _, y in every) or 1.0
        top, room = HEIGHT * n + TOP, HEIGHT - 2 * TOP

        def place(x: float, y: float, end: float, high: float, top: int) -> tuple[float, float]:
            return (
                LEFT + x / end * (WIDTH - LEFT - 10),
                top + (HEIGHT - 2 * TOP) * (1 - max(0.0, y) / high),
            )

        draw.text((6, top), name, fill="black")
        draw.text((6, top + 14), f"{high:,.0f}", fill="gray")
        draw.line([(LEFT, top + room), (WIDTH - 10, top + room)], fill="lightgray")
        if len(line) > 1:
            draw.line([place(x, y, end, high, top) for x, y in line], fill="steelblue")
        for x, y in dots:
            at = place(x, y, end, high, top)
            draw.ellipse([at[0] - 2, at[1] - 2, at[0] + 2, at[1] + 2], fill="firebrick")
    image.save(path)
