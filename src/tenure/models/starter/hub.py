"""One large file over HTTP, resumed where it broke off."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from tenure.clock import Clock
from tenure.errors import ModelError
from tenure.lifecycle.deadline import deadline
from tenure.lifecycle.imports import import_off_loop
from tenure.lifecycle.scope import Scope
from tenure.lifecycle.threads import run_in_thread
from tenure.models import failures
from tenure.models.http_client import open_client, refusal, translated

CONNECT_S = 3.0
"""The first answer must come this soon, else the next source is tried."""
SILENCE_S = 30.0
BLOCK_BYTES = 1024 * 1024


async def fetch_url(  # noqa: PLR0913 - what a download needs, each by name
    url: str,
    part: Path,
    *,
    size: int,
    scope: Scope,
    clock: Clock,
    environ: Mapping[str, str],
    on_bytes: Callable[[int], None],
) -> None:
    """Append to `part` until it has `size` bytes. The content is the caller's to check.

    Args:
        url: the file.
        part: what is there already is asked for no more (HTTP Range).
        size: bytes of the whole.
        scope: owns the client and the writing threads while they last.
        clock: for the timeout of the first answer.
        environ: proxies and certificates.
        on_bytes: told the bytes that are there, from time to time.

    Raises:
        ModelError: it cannot be had, or broke off; what came stays in `part`.
    """
    module = await import_off_loop("httpx")
    origin = failures.Origin("the hub")
    have = _have(part, size)
    headers = {"range": f"bytes={have}-"} if have else {}
    async with scope.child("hub") as inner:
        client = await open_client(url, headers, scope=inner, module=module, environ=environ)
        inner.own("http client", client, lambda held: held.aclose())
        request = client.build_request("GET", url, timeout=module.Timeout(SILENCE_S))
        with translated(origin, module):
            try:
                async with deadline(clock, CONNECT_S):
                    response = await client.send(request, stream=True, follow_redirects=True)
            except TimeoutError:
                raise failures.unreachable(origin, f"no answer within {CONNECT_S:.0f} s") from None
            inner.own("http response", response, lambda held: held.aclose())
            if response.status_code == 200:
                have = 0
            elif response.status_code != 206:
                raise await refusal(response, origin, "", clock)
            block = bytearray()
            async for piece in response.aiter_bytes():
                block += piece
                if len(block) >= BLOCK_BYTES:
                    have = await run_in_thread(inner, _write, part, have, bytes(block))
                    block.clear()
                    on_bytes(have)
                if have > size:
                    break
            have = await run_in_thread(inner, _write, part, have, bytes(block))
            on_bytes(have)
    if have != size:
        raise ModelError(f"the hub sent {have} bytes instead of {size}", provider="starter")


def _have(part: Path, size: int) -> int:
    """Bytes that are there already; none if there are too many."""
    have = part.stat().st_size if part.exists() else 0
    return have if have <= size else 0


def _write(part: Path, offset: int, block: bytes) -> int:
    """Put `block` at `offset`; the new size."""
    with part.open("r+b" if part.exists() else "wb") as out:
        out.truncate(offset)
        out.seek(offset)
        return offset + out.write(block)
