"""OAuth at remote servers: sending and renewing a token, and logging in. Brings the SDK."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any

import httpx2
from mcp.client.auth.oauth2 import OAuthClientProvider
from mcp.shared._httpx_utils import RedirectAwareAuth
from mcp.shared.auth import (
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
)
from pydantic import AnyUrl, ValidationError

from tenure.clock import Clock
from tenure.errors import ToolError
from tenure.toolservers.logins import Login, Logins


class _Kept:
    """A login as the SDK's storage: read and kept by whoever logs in."""

    def __init__(self, login: Login, clock: Clock) -> None:
        self.login = login
        self._clock = clock

    async def get_tokens(self) -> OAuthToken | None:
        if not self.login.access_token:
            return None
        return OAuthToken(
            access_token=self.login.access_token,
            refresh_token=self.login.refresh_token or None,
            scope=self.login.scope or None,
        )

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.login = with_tokens(self.login, tokens, self._clock.wall())

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        known = self.login.client
        return OAuthClientInformationFull.model_validate(known) if known else None

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        client = client_info.model_dump(mode="json", exclude_none=True)
        self.login = Login(client=client)


def with_tokens(login: Login, tokens: OAuthToken, now: float) -> Login:
    """A login with other tokens; what an answer leaves out stays."""
    return Login(
        access_token=tokens.access_token,
        refresh_token=tokens.refresh_token or login.refresh_token,
        scope=tokens.scope or login.scope,
        expires_at=now + tokens.expires_in if tokens.expires_in else 0.0,
        client=login.client,
        metadata=login.metadata,
    )


def _metadata(redirect: str = "http://127.0.0.1/callback") -> OAuthClientMetadata:
    return OAuthClientMetadata(
        client_name="tenure",
        redirect_uris=[AnyUrl(redirect)],
        grant_types=["authorization_code", "refresh_token"],
        token_endpoint_auth_method="none",  # noqa: S106 - a public client has no secret
    )


class _Renewing(OAuthClientProvider):
    """The SDK's knowledge of how a token is renewed; nothing else of it is used."""

    async def renewal(self, login: Login) -> httpx2.Request:
        """The request that renews `login`."""
        await self._initialize()
        if login.metadata:
            self.context.oauth_metadata = OAuthMetadata.model_validate(login.metadata)
        return await self._refresh_token()


class Bearer(RedirectAwareAuth):
    """Sends the token of a login, and renews it when its time comes.

    Args:
        url: the server.
        logins: where logins are kept.
        clock: time.
        know: told each token, so that the log hides it.

    Attributes:
        on_refused: called when the server wants a login that there is not.
    """

    def __init__(self, url: str, logins: Logins, clock: Clock, know: Callable[[str], None]) -> None:
        self._url = url
        self._know = know
        self._logins = logins
        self._clock = clock
        self.on_refused: Callable[[], object] = lambda: None

    async def _auth_flow(
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        login = self._read()
        if login.refresh_token and not login.usable(self._clock.wall()):
            async with self._logins.alone():
                found = self._read()
                if not found.usable(self._clock.wall()) and found.refresh_token:
                    answer = yield await self._renewal(found)
                    await self._take(found, answer)
            login = self._read()
        if login.access_token and "authorization" not in request.headers:
            request.headers["Authorization"] = f"Bearer {login.access_token}"
        response = yield request
        if response.status_code != 401:
            return
        if login.refresh_token:
            async with self._logins.alone():
                found = self._read()
                if found.access_token == login.access_token:
                    answer = yield await self._renewal(found)
                    await self._take(found, answer)
            login = self._read()
            request.headers["Authorization"] = f"Bearer {login.access_token}"
            response = yield request
        if response.status_code == 401:
            self.on_refused()

    async def _renewal(self, login: Login) -> httpx2.Request:
        renewing = _Renewing(self._url, _metadata(), _Kept(login, self._clock))
        return await renewing.renewal(login)

    async def _take(self, over: Login, answer: httpx2.Response) -> None:
        """Keep what an answer brings; one that brings nothing changes nothing."""
        if answer.status_code != 200:
            return
        try:
            tokens = OAuthToken.model_validate_json(await answer.aread())
        except ValidationError:
            return
        self._logins.write(self._url, with_tokens(over, tokens, self._clock.wall()), over=over)

    def _read(self) -> Login:
        login = self._logins.read(self._url)
        for secret in (login.access_token, login.refresh_token):
            if secret:
                self._know(secret)
        return login


async def log_in(  # noqa: PLR0913 - each by name
    url: str,
    logins: Logins,
    clock: Clock,
    redirect: str,
    *,
    show: Callable[[str], Awaitable[None]],
    answered: Callable[[], Awaitable[Any]],
    client: Callable[[httpx2.Auth], Awaitable[httpx2.AsyncClient]],
) -> None:
    """Log in with a person's browser; the login is kept once all of it is there.

    Args:
        url: the server.
        logins: where it is kept.
        clock: time.
        redirect: where the browser is sent back to.
        show: told the address to open.
        answered: waits for what the browser brings back.
        client: makes a client that uses an auth.

    Raises:
        ToolError: it did not come to a login.
    """
    kept = _Kept(Login(), clock)
    provider = OAuthClientProvider(url, _metadata(redirect), kept, show, answered)
    ping = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}}
    headers = {"accept": "application/json, text/event-stream"}
    async with (
        await client(provider) as http,
        http.stream("POST", url, json=ping, headers=headers) as response,
    ):
        status = response.status_code
    login = kept.login
    if not login.access_token:
        raise ToolError(f"The server asked for no login (status {status}); none was made.")
    metadata = provider.context.oauth_metadata
    if metadata is not None:
        login = Login(
            **{field: getattr(login, field) for field in login.__struct_fields__[:-1]},
            metadata=metadata.model_dump(mode="json", exclude_none=True),
        )
    async with logins.alone():
        logins.write(url, login)
