"""A remote tool server with a login, on loopback: single-use renewals, whose second use is noticed."""

from __future__ import annotations

import asyncio
import json
from typing import Any, Self
from urllib.parse import parse_qs, urlencode, urlsplit


class Remote:
    """Speaks streamable HTTP in plain JSON answers, and OAuth.

    Attributes:
        asks: whether a login is needed.
        renewals: how often a token was renewed.
        reused: whether a renewal was used twice: then nobody's token is good any more.
        refuses: the status with which renewals fail; 0: they do not.
        cut: connections are closed instead of answering calls of that tool, after the effect.
    """

    def __init__(self) -> None:
        self.asks = False
        self.good: set[str] = set()
        self.renewal = ""
        self.used: set[str] = set()
        self.renewals = 0
        self.reused = False
        self.refuses = 0
        self.cut = self.refused = ""
        self.calls: list[str] = []
        self.sessions = 0
        self.turned_away = 0
        self.lifetime_s = 3600
        self.slow_renewal: asyncio.Event | None = None
        self.huge = False
        self.elsewhere = ""
        self._count = 0
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        self.origin = f"http://127.0.0.1:{self.port}"
        self.url = f"{self.origin}/mcp"
        return self

    async def __aexit__(self, *_exc: object) -> None:
        assert self._server is not None
        self._server.close()

    def tokens(self) -> dict[str, Any]:
        """A new pair."""
        self._count += 1
        access, self.renewal = f"access-{self._count}", f"renewal-{self._count}"
        self.good = {access}
        return {
            "access_token": access, "refresh_token": self.renewal, "token_type": "Bearer",
            "expires_in": self.lifetime_s,
        }  # fmt: skip

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            first, *rest = head.split("\r\n")
            headers = {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in rest)}
            body = await reader.readexactly(int(headers.get("content-length", "0")))
            method, target, _ = first.split(" ")
            answer = await self.answer(method, target, headers, body)
            if answer is not None:
                status, more, text = answer
                lines = [f"HTTP/1.1 {status} X", f"content-length: {len(text)}"]
                lines += ["connection: close", *(f"{k}: {v}" for k, v in more.items())]
                writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + text)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def answer(self, method: str, target: str, headers: Any, body: bytes) -> Any:  # noqa: PLR0911
        """Status, headers and body; None: hang up."""
        url = urlsplit(target)
        if url.path.startswith("/.well-known/oauth-protected-resource"):
            server = self.elsewhere or self.origin
            return _json({"resource": self.url, "authorization_servers": [server]})
        if url.path.startswith("/.well-known/oauth-authorization-server"):
            return _json({
                "issuer": self.origin, "authorization_endpoint": f"{self.origin}/authorize",
                "token_endpoint": f"{self.origin}/token",
                "registration_endpoint": f"{self.origin}/register",
                "response_types_supported": ["code"], "code_challenge_methods_supported": ["S256"],
            })  # fmt: skip
        if url.path == "/register":
            return _json({"client_id": "c1", **json.loads(body)}, 201)
        if url.path == "/authorize":
            asked = {k: v[0] for k, v in parse_qs(url.query).items()}
            back = urlencode({"code": "code-1", "state": asked["state"]})
            return 302, {"location": f"{asked['redirect_uri']}?{back}"}, b""
        if url.path == "/token":
            return await self.token({k: v[0] for k, v in parse_qs(body.decode()).items()})
        if url.path != "/mcp":
            return 404, {}, b""
        if self.asks and headers.get("authorization", "").removeprefix("Bearer ") not in self.good:
            self.turned_away += 1
            meta = f'Bearer resource_metadata="{self.origin}/.well-known/oauth-protected-resource"'
            return 401, {"www-authenticate": meta}, b""
        if method != "POST":
            return 405, {}, b""
        return self.mcp(json.loads(body))

    async def token(self, form: dict[str, str]) -> Any:
        """A code, or a renewal, for tokens."""
        if form["grant_type"] == "authorization_code":
            return _json(self.tokens())
        if self.slow_renewal is not None:
            await self.slow_renewal.wait()
        if self.refuses:
            return _json({"error": "invalid_grant"}, self.refuses)
        if form["refresh_token"] in self.used:
            self.reused, self.good = True, set()
            return _json({"error": "invalid_grant"}, 400)
        self.used.add(form["refresh_token"])
        self.renewals += 1
        return _json(self.tokens())

    def mcp(self, message: dict[str, Any]) -> Any:
        """A message of the protocol."""
        method, number = message.get("method"), message.get("id")
        if number is None:
            return 202, {}, b""
        if method == "initialize":
            self.sessions += 1
            result: Any = {
                "protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                "serverInfo": {"name": "remote", "version": "1"},
            }  # fmt: skip
        elif method == "tools/list":
            schema = {"type": "object", "properties": {"text": {"type": "string"}}}
            result = {"tools": [{"name": n, "inputSchema": schema} for n in ("echo", "cut")]}
        else:
            name = message["params"]["name"]
            self.calls.append(name)
            if name == self.cut:
                return None
            if name == self.refused:  # by a code of its own, which the library uses too
                error = {"code": -32000, "message": "not today"}
                return _json({"jsonrpc": "2.0", "id": number, "error": error})
            text = "x" * (17 << 20) if self.huge else message["params"]["arguments"].get("text", "")
            result = {"content": [{"type": "text", "text": text}]}
        return _json({"jsonrpc": "2.0", "id": number, "result": result})


def _json(value: Any, status: int = 200) -> Any:
    return status, {"content-type": "application/json"}, json.dumps(value).encode()
