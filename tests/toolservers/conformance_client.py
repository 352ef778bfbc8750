"""Our client, as the conformance suite drives it: the last argument is the server's address."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import httpx2
from mcp.shared.auth import AuthorizationCodeResult

from tenure.clock import SystemClock
from tenure.errors import ToolError
from tenure.lifecycle.scope import Scope
from tenure.settings import WebConfig
from tenure.toolservers import http, oauth
from tenure.toolservers.calls import Caller
from tenure.toolservers.declared import Declared
from tenure.toolservers.link import Link
from tenure.toolservers.logins import Logins
from tenure.toolservers.remote import LOGINS, Network
from tenure.toolservers.wire import Dispatch

REDIRECT = "http://127.0.0.1:8765/callback"


async def main(url: str, folder: Path) -> None:
    clock = SystemClock()
    server = Declared(url=url, timeout_s=20)
    network = Network({}, folder / LOGINS, lambda: WebConfig(allow=("127.0.0.1", "::1")))
    async with Scope.root("conformance", clock) as scope:
        try:
            await use(scope.child("first"), server, network)
        except ToolError as exc:
            if "wants a login" not in exc.message:
                raise
            await log_in(scope, server, network)
            await use(scope.child("second"), server, network)


async def use(scope: Scope, server: Declared, network: Network) -> None:
    """List, and call what there is."""
    link = Link(scope, roots=(), elicits=True)
    await network.open(scope, link, "suite", server)
    offers = await link.offers()
    for tool in offers.tools:
        given = {"a": 5, "b": 3} if tool.name == "add_numbers" else {}

        async def nothing(_asked: object) -> str:
            return ""  # what has a default gets it

        caller = Caller(tell=lambda _: None, ask=nothing)
        outcome = await link.call(tool.name, given, caller, Dispatch(), server.timeout_s)
        sys.stderr.write(f"{tool.name}: {outcome}\n")
    await scope.close("done")


async def log_in(scope: Scope, server: Declared, network: Network) -> None:
    """As a person with a browser would."""
    answers: list[AuthorizationCodeResult] = []

    async def show(address: str) -> None:
        async with httpx2.AsyncClient(trust_env=False) as browser:
            back = (await browser.get(address)).headers["location"]
        found = {key: value[0] for key, value in parse_qs(urlsplit(back).query).items()}
        answers.append(
            AuthorizationCodeResult(
                code=found["code"], state=found.get("state"), iss=found.get("iss")
            )
        )

    async def answered() -> AuthorizationCodeResult:
        return answers[-1]

    await oauth.log_in(
        server.url, Logins(network.logins, scope.clock), scope.clock, REDIRECT,
        show=show, answered=answered,
        client=lambda auth: http.client_for(scope, server, network, auth),
    )  # fmt: skip


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        asyncio.run(main(sys.argv[-1], Path(place)))
