"""Case 42: a change of the configuration cuts nothing and takes nothing away."""

from __future__ import annotations

import logging
import tomllib
from pathlib import Path
from typing import Any

import msgspec
import pytest

from support.profiles import turn
from tenure.config import Config, Home, Loaded, load, parse
from tenure.errors import ConfigError
from tenure.models.script import Script
from tenure.reload import LiveConfig
from tenure.testing.gates import Gate
from tenure.testing.gateway import open_test_gateway
from tenure.tools.registry import tools_for

DENY = '[[approvals.rules]]\ndecision = "deny"\ntool = "write"\n'
WRITE = {"call": {"name": "write", "arguments": {"path": "f", "content": "x"}}}


def set_config(folder: Path, text: str) -> None:
    (folder / "home").mkdir(exist_ok=True)
    (folder / "home" / "config.toml").write_text(text)


async def test_a_running_turn_keeps_what_it_began_with_and_the_next_has_the_new(tmp_path):
    script = Script([[{"gate": "busy"}, WRITE], WRITE, {"text": "one"}, WRITE, {"text": "two"}])
    async with open_test_gateway(tmp_path, script, tools=tools_for) as gw:
        client, _ = await gw.client()
        session = await client.ready_session(auto_approve=True)
        live = gw.sessions.get(session)
        await client.call("prompt.submit", session_id=session, text="write twice")
        await script.gate("busy").wait_reached()
        first = live.agent
        set_config(tmp_path, DENY + "[limits]\nsteps_max = 1\ntool_output_bytes_max = 999\n")
        other = await client.ready_session()  # looks at the file
        assert gw.ports.config().limits.steps_max == 1
        assert live.agent is first and gw.sessions.get(other).agent.config is not first.config
        script.gate("busy").open()
        done = await client.until("message.complete", session)
        assert (done.payload["state"], done.payload["denied"], done.payload["steps"]) == (
            "completed", 0, 3,
        )  # fmt: skip
        done = await turn(client, session, "once more")
        assert live.agent is not first
        assert done["denied"] == 1 and done["cause"] == "steps"


@pytest.mark.parametrize("when", ["before it was said", "after it was said"])
async def test_a_prompt_that_waited_behind_the_change_has_the_new(tmp_path, when):
    script = Script([[{"gate": "busy"}, WRITE], {"text": "one"}, WRITE, {"text": "two"}])
    async with open_test_gateway(tmp_path, script, tools=tools_for) as gw:
        client, _ = await gw.client()
        session = await client.ready_session(auto_approve=True)
        await client.call("prompt.submit", session_id=session, text="first")
        await script.gate("busy").wait_reached()
        if when == "before it was said":
            set_config(tmp_path, DENY)
        await client.call("prompt.submit", session_id=session, text="second")
        set_config(tmp_path, DENY)
        script.gate("busy").open()
        assert (await client.until("message.complete", session)).payload["denied"] == 0
        assert (await client.until("message.complete", session)).payload["denied"] == 1


async def test_while_one_agent_is_built_anew_others_are_served(tmp_path):
    script = Script([[{"gate": "busy"}, {"text": "ok"}]], loop=True)
    async with open_test_gateway(tmp_path, script) as gw:
        client, _ = await gw.client()
        a, b = await client.ready_session(), await client.ready_session()
        await client.call("prompt.submit", session_id=b, text="long")
        await script.gate("busy").wait_reached()
        set_config(tmp_path, "[limits]\nsteps_max = 9\n")
        gate = gw.picker.gates["model"] = Gate()
        await client.call("prompt.submit", session_id=a, text="hi")
        await gate.wait_parked()
        script.gate("busy").open()
        assert (await client.until("message.complete", b)).payload["state"] == "completed"
        assert (await client.call("session.list"))["sessions"]
        gate.release()
        assert (await client.until("message.complete", a)).payload["state"] == "completed"


BAD = {
    "no TOML": "[limits", "a wrong type": '[limits]\nqueue_max = "many"\n',
    "a senseless value": "[limits]\nqueue_max = -1\n", "no text": "\xff",
}  # fmt: skip


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD)
async def test_an_invalid_file_leaves_the_old_one_in_force_and_says_so(tmp_path, bad, caplog):
    async with open_test_gateway(tmp_path, Script([{"text": "ok"}], loop=True)) as gw:
        client, _ = await gw.client()
        session = await client.ready_session()
        set_config(tmp_path, "[limits]\nqueue_max = 5\n")
        await turn(client, session)
        told = next(e for e in client.seen if e.type == "notification.show")
        assert "limits.queue_max" in told.payload["text"] and told.payload["level"] == "info"
        (tmp_path / "home/config.toml").write_bytes(bad.encode("latin-1"))
        with caplog.at_level(logging.ERROR):
            await client.call("prompt.submit", session_id=session, text="hi")
            told = await client.until("notification.show", session)
        assert told.payload["level"] == "error" and "stays so" in told.payload["text"]
        assert "config.toml" in told.payload["text"] and "config.toml" in caplog.text
        assert (await client.until("message.complete", session)).payload["state"] == "completed"
        assert gw.ports.config().limits.queue_max == 5
        assert "config.toml" in gw.sessions.get(session).info()["config_warning"]
        with pytest.raises(ConfigError, match=r"config\.toml"):
            await client.call("config.reload")
        before = len(client.seen)
        await turn(client, session)  # it is told once
        assert not [e for e in client.seen[before:] if e.type == "notification.show"]
        set_config(tmp_path, "[limits]\nqueue_max = 6\n")
        await turn(client, session)
        assert gw.ports.config().limits.queue_max == 6
        assert "config_warning" not in gw.sessions.get(session).info()


def leaves(value: Any, at: str = "") -> dict[str, Any]:
    if not isinstance(value, dict):
        return {at: value}
    found: dict[str, Any] = {}
    for key, inner in value.items():
        found |= leaves(inner, f"{at}.{key}" if at else key)
    return found


OTHER = {
    "model.default": '"openai:x"', "starter.gguf": '"/x.gguf"', "log_level": '"debug"',
    "server.host": '"::1"', "approvals.rules": '[{decision = "ask"}]',
    "server.allow_hosts": '["a"]', "server.allow_origins": '["https://a"]',
    "sandbox.read": '["/srv"]', "sandbox.write": '["/srv"]',
    "approvals.mode": '"ask"', "sandbox.kind": '"local"', "web.search.provider": '"off"',
    "web.proxy": '"http://a:1"', "web.search.url": '"http://a"',
}  # fmt: skip
KEYS = leaves(msgspec.to_builtins(Config()))


def another(key: str, value: Any) -> str:
    if key in OTHER:
        return OTHER[key]
    if isinstance(value, tuple | list):
        return '["x"]'
    if isinstance(value, bool):
        return str(not value).lower()
    if isinstance(value, float):
        return str(value + 1.0)
    if isinstance(value, str):
        return '"x"'
    return str(value + 1)


@pytest.mark.parametrize("key", sorted(set(KEYS) - {"providers"}))
def test_every_key_is_taken_over_or_said_to_wait(tmp_path, key):
    home = Home(tmp_path, tmp_path)
    home.config.write_text("")
    live = LiveConfig(load(home), lambda: load(home), (home.config,))
    assert live.look() is None and live.look() is None
    table, _, name = key.rpartition(".")
    home.config.write_text(
        (f"[{table}]\n" if table else "") + f"{name} = {another(key, KEYS[key])}\n"
    )
    found = live.look()
    waits = key.startswith("server.") or key == "log_level"
    assert (found.waiting if waits else found.changed) == (key,), found
    assert (found.changed if waits else found.waiting) == ()
    wanted = leaves(tomllib.loads(home.config.read_text()))[key]
    now = leaves(msgspec.to_builtins(live.config))[key]
    assert (now == KEYS[key]) if waits else (now == wanted or now != KEYS[key])
    assert ("counts from the next start" in found.text) == waits
    assert live.look() is None


def test_the_command_line_stays_on_top(tmp_path):
    home = Home(tmp_path, tmp_path)

    def on_top(config: Config) -> Config:
        limits = msgspec.structs.replace(config.limits, queue_max=3)
        return msgspec.structs.replace(config, limits=limits)

    first = Loaded(on_top(Config()), home.config, exists=False)
    live = LiveConfig(first, lambda: load(home), (home.config,), on_top=on_top)
    home.config.write_text("[limits]\nqueue_max = 7\nsteps_max = 8\n")
    assert live.look().changed == ("limits.steps_max",)
    assert live.config.limits.queue_max == 3


def test_a_change_while_the_file_is_read_is_seen_by_the_next_look(tmp_path):
    home = Home(tmp_path, tmp_path)
    home.config.write_text("[limits]\nqueue_max = 4\n")
    texts = ["[limits]\nqueue_max = 5\n", ""]

    def read() -> Loaded:
        loaded = load(home)
        if texts and texts[0]:
            home.config.write_text(texts.pop(0) + "# longer\n")
        return loaded

    live = LiveConfig(parse("", home.config), read, (home.config,))
    live.look()
    assert live.config.limits.queue_max == 4
    live.look()
    assert live.config.limits.queue_max == 5
