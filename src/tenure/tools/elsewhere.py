"""The file tools where the working directory is not on this machine.

What is read or changed goes through `Files`; what looks through many files is a command over there.
"""

from __future__ import annotations

import io
import shlex

from tenure.errors import ToolError
from tenure.lifecycle.deadline import deadline
from tenure.sandbox.base import Bounds, Entry, Files, Order, Running
from tenure.tools.base import ToolContext

SEARCH_S = 30.0


async def open_elsewhere(files: Files, path: str, bounds: Bounds) -> io.BufferedReader:
    """A file's content, as a file to read from; of `FILE_BYTES_MAX` at the most."""
    return io.BufferedReader(io.BytesIO(await files.read(path, bounds)))


async def names_elsewhere(files: Files, path: str, bounds: Bounds) -> list[str]:
    """The entries of a folder, sorted, marked as `list` marks them."""
    marks = {"folder": "/", "link": "@", "file": ""}

    def marked(entry: Entry) -> str:
        return f"{entry.name}{marks[entry.kind]}"

    found = await files.entries(path, bounds)
    return sorted(marked(entry) for entry in found)


async def files_elsewhere(ctx: ToolContext, path: str, skipped: frozenset[str]) -> list[str]:
    """Paths of all files below a folder, relative to it; links are entries, never ways."""
    prune = " -o ".join(f"-name {shlex.quote(name)}" for name in sorted(skipped))
    command = (
        f"cd -- {shlex.quote(path)} && find . -type d \\( {prune} \\) -prune -o ! -type d -print0 "
        "| head -c 8000000"
    )
    output, _ = await run_elsewhere(ctx, ("/bin/sh", "-c", command), 8_000_000)
    return [
        name.removeprefix("./") for name in output.decode("utf-8", "replace").split("\0") if name
    ]


async def run_elsewhere(
    ctx: ToolContext, argv: tuple[str, ...], bytes_max: int
) -> tuple[bytes, int | None]:
    """Run a program over there; its output, and its status unless that was over the limit.

    Raises:
        ToolError: it took over `SEARCH_S` seconds.
    """
    running: Running = await ctx.sandbox.start(
        ctx.scope, Order(argv, stderr="null", label="search")
    )
    output = bytearray()
    assert running.stdout is not None
    try:
        async with deadline(ctx.clock, SEARCH_S):
            while len(output) <= bytes_max and (piece := await running.stdout.read()):
                output += piece
            status = None if len(output) > bytes_max else await running.wait()
    except TimeoutError:
        raise ToolError(f"It took over {SEARCH_S:.0f} s; narrow it down.") from None
    finally:
        await running.stop()
    return bytes(output), status
