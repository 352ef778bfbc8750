"""The file of servers: what is read, what is refused, what is told."""

from __future__ import annotations

import json

import pytest

from tenure.errors import ConfigError
from tenure.toolservers.catalog import Catalog, Offer, Offers, public_name
from tenure.toolservers.declared import Declared, change_servers, parse_servers, read_servers
from tenure.toolservers.described import bounded


def parsed(**servers):
    return parse_servers(json.dumps({"mcpServers": servers}).encode(), "f.json")


def test_the_public_form():
    found = parsed(
        a={"command": "npx", "args": ["-y", "x"], "env": {"K": "v"}},
        b={"url": "https://a.test/mcp", "headers": {"X": "y"}, "type": "http"},
    )
    assert found.warnings == ()
    assert found.servers["a"] == Declared(command="npx", args=("-y", "x"), env={"K": "v"})
    assert found.servers["b"].remote and found.servers["a"].transport == "stdio"


@pytest.mark.parametrize(("entry", "problem"), [
    ({}, "either a command or a url"),
    ({"command": "a", "url": "http://x"}, "either a command or a url"),
    ({"command": ["a"]}, "Expected `str`"),
    ({"url": "ftp://x"}, "must begin with http"),
    ({"url": "http://x", "type": "sse"}, "is not spoken"),
    ({"command": "a", "cwd": "b"}, "absolute"),
    ({"command": "a", "args": ["\0"]}, "zero byte"),
    ({"command": "a", "env": {"A=B": "c"}}, "env has a name"),
    ({"command": "a", "timeout_s": 0}, "> 0"),
    ("x", "no object"),
])  # fmt: skip
def test_a_wrong_server_is_told_and_the_others_stay(entry, problem):
    found = parsed(wrong=entry, right={"command": "true"})
    assert list(found.servers) == ["right"]
    assert problem in found.warnings[0] and "wrong" in found.warnings[0]


def test_what_is_not_used_is_told():
    found = parsed(a={"command": "x", "autoApprove": [], "args": ["$HOME", "a${TOKEN}b", "5$"]})
    assert "f.json: a: 'autoApprove' is not used." in found.warnings
    assert any("$HOME, ${TOKEN} stays as it is written" in text for text in found.warnings)
    assert found.servers["a"].args == ("$HOME", "a${TOKEN}b", "5$")


@pytest.mark.parametrize("raw", [b"", b"[]", b"{}", b'{"mcpServers": []}', b"\xff", b"[" * 100_000])
def test_no_file_of_servers(raw):
    with pytest.raises(ConfigError):
        parse_servers(raw, "f.json")


def test_many_servers_are_bounded():
    found = parsed(**{f"s{n}": {"command": "x"} for n in range(70)})
    assert len(found.servers) == 64 and "first 64" in found.warnings[0]


def test_changing_keeps_the_rest(tmp_path):
    path = tmp_path / "mcp.json"
    path.write_text('{"mcpServers": {"a": {"command": "x", "mine": 1}}, "other": true}')
    assert not change_servers(path, "b", Declared(url="https://b.test"))
    assert change_servers(path, "b", Declared(url="https://c.test"))
    whole = json.loads(path.read_text())
    assert whole["other"] is True and whole["mcpServers"]["a"] == {"command": "x", "mine": 1}
    assert whole["mcpServers"]["b"] == {"url": "https://c.test"}
    assert path.stat().st_mode & 0o777 == 0o600
    assert change_servers(path, "b", None) and list(read_servers(path).servers) == ["a"]
    with pytest.raises(ConfigError, match="name"):
        change_servers(path, "b c", Declared(command="x"))
    path.write_text("broken")
    with pytest.raises(ConfigError, match="not JSON"):
        change_servers(path, "c", Declared(command="x"))
    assert path.read_text() == "broken"


def test_names_that_every_provider_takes():
    assert public_name("a", "b") == "mcp__a__b"
    odd, other = public_name("a.b", "c d"), public_name("a b", "c.d")
    assert odd != other and len(public_name("x" * 40, "y" * 200)) == 64
    assert all(c.isalnum() or c in "_-" for c in odd + other)


def test_schemas_within_limits():
    assert bounded("a", "b", {"properties": {"x": {}}}).schema == {
        "type": "object", "properties": {"x": {}}
    }  # fmt: skip
    huge = bounded("a", "b" * 5_000, {"type": "object", "properties": {"x" * 40_000: {}}})
    assert huge.schema == {"type": "object"} and len(huge.description) < 2_100
    assert bounded("a", "", ["no"]).schema == {"type": "object"}


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": ["x"]}, {"properties": {"x": {"type": "strin"}}}, {"required": 5},
        {"required": "x"}, {"properties": {"x": {"enum": 1}}}, {"$defs": {"x": 1}},
        {"properties": {"x": {"items": [{}]}}},
    ],
)  # fmt: skip
def test_what_is_no_schema_is_left_out(schema):
    """Providers refuse a request for one such tool, whatever else is in it."""
    offer = bounded("a", "b", {"type": "object", **schema})
    assert offer.schema == {"type": "object"} and "cannot be shown" in offer.description


def test_what_is_known_is_kept_and_damage_is_nothing(tmp_path):
    offers = Offers((Offer("a", "b", {"type": "object"}),), prompts=True)
    assert Catalog(tmp_path / "c").put("d", offers)
    again = Catalog(tmp_path / "c")
    assert again.get("d") == offers and not again.put("d", offers)
    (tmp_path / "c" / "d.json").write_bytes(b"{")
    assert Catalog(tmp_path / "c").get("d") is None
    assert Catalog(tmp_path / "c" / "d.json").put("e", offers)  # no folder there: in memory it is
