"""config.reload: read the configuration files now."""

from __future__ import annotations

import pytest

from tenure.errors import ConfigError, NotFound


def set_config(tmp_path, text):
    (tmp_path / "home").mkdir(exist_ok=True)
    (tmp_path / "home" / "config.toml").write_text(text)


async def test_what_changed_and_what_waits(rig, tmp_path):
    session = await rig.session()
    set_config(tmp_path, "[limits]\nqueue_max = 3\n[server]\nport = 1\n")
    done = await rig.call("config.reload")
    assert done["changed"] == ["approvals.rules", "limits.queue_max"]
    assert done["waiting"] == ["server.port"] and "next start" in done["text"]
    assert (await rig.client.until("notification.show", session)).payload["text"] == done["text"]
    again = await rig.call("config.reload")
    assert again["changed"] == [] and again["waiting"] == ["server.port"]


async def test_a_wrong_file_is_told_and_not_taken(rig, tmp_path):
    set_config(tmp_path, "[limits]\nqueue_max = 3\n")
    await rig.call("config.reload")
    set_config(tmp_path, "nonsense")
    for _ in range(2):
        with pytest.raises(ConfigError, match="TOML"):
            await rig.call("config.reload")
    assert rig.gateway.ports.config().limits.queue_max == 3
    with pytest.raises(NotFound):
        await rig.call("config.reload", profile="nope")


async def test_wrong_types(rig):
    await rig.refuses_wrong_types("config.reload")
