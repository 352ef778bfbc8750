"""Where a browser is sent back to after a login: one address of this machine, for one answer."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

from tenure.errors import ConfigError

HEAD_BYTES_MAX = 16_384
READ_S = 10.0
_PAGE = b"<!doctype html><title>tenure</title><p>You can close this page."


class Waiting:
    """Listens on loopback until the answer is there.

    Attributes:
        redirect: the address.
    """

    def __init__(self) -> None:
        self.redirect = ""
        self._server: asyncio.Server | None = None
        self._answer: asyncio.Future[dict[str, list[str]]] | None = None

    async def __aenter__(self) -> Self:
        self._answer = asyncio.get_running_loop().create_future()
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=HEAD_BYTES_MAX)
        port = self._server.sockets[0].getsockname()[1]
        self.redirect = f"http://127.0.0.1:{port}/callback"
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._server is not None
        self._server.close()

    async def answered(self) -> Any:
        """What the browser brought, as the SDK wants it.

        Raises:
            ConfigError: the login was refused.
        """
        from mcp.shared.auth import AuthorizationCodeResult

        assert self._answer is not None
        found = {key: values[0] for key, values in (await self._answer).items()}
        if "code" not in found:
            why = found.get("error_description") or found.get("error") or "no code came back"
            raise ConfigError(f"The login was refused: {why[:300]}.")
        return AuthorizationCodeResult(
            code=found["code"], state=found.get("state"), iss=found.get("iss")
        )

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(READ_S):
                line = (await reader.readuntil(b"\r\n\r\n")).split(b"\r\n", 1)[0]
            words = line.decode("ascii", "replace").split(" ")
            url = urlsplit(words[1] if len(words) > 1 else "")
            ours = url.path == "/callback" and words[0] == "GET"
            status = b"200 OK" if ours else b"404 Not Found"
            head = b"HTTP/1.1 %s\r\ncontent-type: text/html\r\nconnection: close\r\n\r\n" % status
            writer.write(head + (_PAGE if ours else b""))
            await writer.drain()
            if ours and self._answer is not None and not self._answer.done():
                self._answer.set_result(parse_qs(url.query))
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, OSError, TimeoutError):
            return
        finally:
            writer.close()
