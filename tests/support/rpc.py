"""A gateway and a client for tests of methods, over the wire."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec
import pytest

from tenure.errors import InvalidParams, NotFound, SessionClosing, SessionNotFound
from tenure.protocol.methods import METHODS
from tenure.testing.gateway import TestClient, TestGateway

STRANGER = "20200101_000000_00000000"


@dataclass
class Rig:
    """One gateway, one client."""

    gateway: TestGateway
    client: TestClient

    async def call(self, method: str, **params: Any) -> Any:
        return await self.client.call(method, **params)

    async def session(self, **params: Any) -> str:
        return await self.client.ready_session(**params)

    async def turn(self, session: str, text: str = "hi") -> dict[str, Any]:
        """One turn; the payload of its end."""
        await self.call("prompt.submit", session_id=session, text=text)
        return (await self.client.until("message.complete", session)).payload

    def live(self, session: str):
        return self.gateway.sessions.get(session)

    async def refuses_wrong_types(self, method: str, **valid: Any) -> None:
        """Every field that is declared with a type refuses another; every required one is missed."""
        params_type = METHODS[method][0]
        for field in msgspec.structs.fields(params_type):
            if field.type is Any:
                continue
            with pytest.raises(InvalidParams, match=field.name):
                await self.call(method, **{**valid, field.name: {"not": ["of", "this", "type"]}})
            if field.required:
                with pytest.raises(InvalidParams, match=field.name):
                    await self.call(method, **{k: v for k, v in valid.items() if k != field.name})

    async def refuses_strangers(self, method: str, **valid: Any) -> None:
        """A session that is not there, and one that is being closed, are told apart."""
        with pytest.raises((SessionNotFound, NotFound), match=r"No (live )?session"):
            await self.call(method, **{**valid, "session_id": STRANGER})
        session = await self.session()
        self.live(session).scope.claim("a test")
        with pytest.raises(SessionClosing, match="being closed"):
            await self.call(method, **{**valid, "session_id": session})
