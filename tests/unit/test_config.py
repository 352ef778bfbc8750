"""Configuration: every key has a default, an unknown one warns, a wrong one is an error."""

from __future__ import annotations

from pathlib import Path

import pytest

from tenure.config import Config, Home, find_home, json_schema, load, parse
from tenure.errors import ConfigError


def test_an_empty_file_is_the_defaults(tmp_path):
    home = Home(tmp_path, tmp_path)
    assert load(home).config == Config() and not load(home).exists
    home.config.write_text("")
    assert load(home).config == Config() and load(home).exists


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("modle = 1", "did you mean model?"),
        ("[server]\nprt = 1", "did you mean server.port?"),
        ("[providers.box]\nbase_ulr = 'x'", "did you mean providers.box.base_url?"),
        (
            "[[approvals.rules]]\ndecision = 'ask'\ntol = 'x'",
            "did you mean approvals.rules[0].tool?",
        ),
        ("zzz = 1", "it is ignored"),
    ],
)
def test_an_unknown_key_warns_with_the_nearest_name_and_runs_on(text, hint):
    loaded = parse(text, Path("config.toml"))
    assert len(loaded.warnings) == 1 and hint in loaded.warnings[0]


@pytest.mark.parametrize(
    "text",
    [
        "[server]\nport = 'x'",
        "[[approvals.rules]]\ndecision = 'maybe'",
        "not toml",
        "[model]\ndefault = 3",
    ],
)
def test_a_wrong_value_is_one_sentence_that_names_the_file(text):
    with pytest.raises(ConfigError, match=r"config\.toml") as caught:
        parse(text, Path("config.toml"))
    assert "\n" not in caught.value.message


def test_the_home_follows_the_environment():
    assert find_home({"HOME": "/h"}).root == Path("/h/.local/share/tenure")
    assert find_home({"HOME": "/h", "XDG_DATA_HOME": "/d"}).root == Path("/d/tenure")
    assert find_home({"HOME": "/h", "TENURE_HOME": "/t"}).root == Path("/t")
    assert find_home({"HOME": "/h", "TENURE_HOME": "/t"}, "/o").root == Path("/o")
    with pytest.raises(ConfigError, match="'~nobody-of-that-name/t' is of a user who is unknown"):
        find_home({"HOME": "/h", "TENURE_HOME": "~nobody-of-that-name/t"})


def test_the_schema_describes_every_table():
    assert set(json_schema()["$defs"]["Config"]["properties"]) == set(Config.__struct_fields__)
