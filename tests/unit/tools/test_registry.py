"""Which tools a session has."""

from __future__ import annotations

import msgspec

from tenure.config import Config
from tenure.tools.registry import Toolbox


def test_a_set_is_shared_until_the_configuration_is_another():
    toolbox, config = Toolbox(), Config()
    assert toolbox(config, False) is toolbox(config, False)
    assert toolbox(config, True) is toolbox(config, True)
    assert toolbox(config, True) is not toolbox(config, False)
    before = toolbox(config, False)
    limits = msgspec.structs.replace(config.limits, tool_output_bytes_max=12_345)
    after = toolbox(msgspec.structs.replace(config, limits=limits), False)
    assert after is not before
    assert [tool.name for tool in after] == [tool.name for tool in before]


def test_what_the_model_sees_of_a_tool_refers_to_nothing():
    for tool in Toolbox()(Config(), False):
        text = msgspec.json.encode(tool.spec.parameters).decode()
        assert "$ref" not in text, tool.name
        assert "title" not in text, tool.name
