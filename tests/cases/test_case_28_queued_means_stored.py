"""Case 28: "queued" means stored, in order, with a stated limit."""

from __future__ import annotations

import pytest

from tenure.config import Config, LimitsConfig
from tenure.errors import Overloaded
from tenure.models.script import Script
from tenure.testing.gateway import open_test_gateway


async def test_five_messages_limit_four(tmp_path):
    config = Config(limits=LimitsConfig(queue_max=4))
    script = Script([[{"gate": "one"}, {"text": "0"}], {"text": "n"}], loop=True)
    async with open_test_gateway(tmp_path, script, config=config) as gw:
        client, _ = await gw.client()
        sid = await client.ready_session()
        await client.call("prompt.submit", session_id=sid, text="p0")
        for n in range(1, 5):
            receipt = await client.call("prompt.submit", session_id=sid, text=f"p{n}")
            assert receipt["status"] == "queued"
            stored = await gw.store.turns(sid)
            assert (stored[-1].prompt, stored[-1].state) == (f"p{n}", "queued")
        with pytest.raises(Overloaded, match="4 prompts wait"):
            await client.call("prompt.submit", session_id=sid, text="p5")
        script.gate("one").open()
        script.gate("one")
        for _ in range(5):
            await client.until("message.complete")
        turns = await gw.store.turns(sid)
        assert [(t.prompt, t.state) for t in turns] == [(f"p{n}", "completed") for n in range(5)]
