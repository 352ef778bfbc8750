"""What an agent is made of, when it cannot be made."""

from __future__ import annotations

from tenure.errors import ModelError
from tenure.models.script import Script
from tenure.testing.gateway import open_test_gateway


async def test_one_that_could_not_be_built_holds_nothing_while_its_session_lives(tmp_path):
    async with open_test_gateway(tmp_path, Script([])) as gateway:
        client, _ = await gateway.client()
        gateway.picker.failures["model"] = ModelError("There is no model.")
        session = (await client.call("session.create"))["session_id"]
        await client.until("error")
        assert gateway.sessions.find(session) is not None
        assert gateway.picker.log[:2] == ["open credentials", "open http client"]
        assert gateway.picker.opened == []
