"""The fields of a SKILL.md, as people write them."""

from __future__ import annotations

import pytest

from tenure.errors import BadValue
from tenure.skills.format import Skill, is_name, read_skill


def read(text: str) -> Skill:
    return read_skill(text.encode(), "SKILL.md")


def of(fields: str) -> Skill:
    return read(f"---\nname: a-b\n{fields}\n---\nBody.\n")


def test_everything_that_the_format_knows():
    skill = read(
        "\ufeff---\r\n"
        "# who we are\r\n"
        "name: brew-tea\r\n"
        "description: >-\r\n"
        "  Makes tea, green\r\n"
        "  or black.\r\n"
        "\r\n"
        "license: MIT  # as ever\r\n"
        'compatibility: "needs \\"water\\": hot"\r\n'
        "allowed-tools: Bash(git:*, make) Read,Write\r\n"
        "metadata:\r\n"
        "  author: 'O''Hara'\r\n"
        '  version: "1.0"\r\n'
        "unknown: [1, 2]\r\n"
        "---\r\n"
        "\r\n# Tea\r\n\r\n---\r\nHeat.\r\n"
    )
    assert skill == Skill(
        name="brew-tea",
        description="Makes tea, green or black.",
        body="# Tea\n\n---\nHeat.",
        license="MIT",
        compatibility='needs "water": hot',
        allowed_tools=("Bash(git:*, make)", "Read", "Write"),
        metadata={"author": "O'Hara", "version": "1.0"},
    )


@pytest.mark.parametrize(
    ("fields", "about"),
    [
        ("description: Use when: there is a colon", "Use when: there is a colon"),
        ("description: http://x.org and more", "http://x.org and more"),
        ("description: over\n  two lines", "over two lines"),
        ("description:\n  below", "below"),
        ("description: |\n  one\n    two\n\n  three", "one two three"),
        ("description: >\n  one\n  two\n\n  three", "one two three"),
        ("description: 'single: quoted' # so", "single: quoted"),
        ('description: "unended', "unended"),
        ('description: "bad \\q"', "bad \\q"),
        ("description: C# is no comment", "C# is no comment"),
    ],
)
def test_descriptions(fields, about):
    assert of(fields).description == about


@pytest.mark.parametrize("tools", ["allowed-tools:\n  - Read\n  - Grep", "allowed-tools: [Read, Grep]",
                                   "allowed-tools:\n- Read\n- Grep", "allowed-tools: Read Grep"])  # fmt: skip
def test_lists(tools):
    assert of(f"description: x\n{tools}").allowed_tools == ("Read", "Grep")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("name: x\n", "does not begin with a line of three dashes"),
        ("---\nname: x\n", "are not ended"),
        ("---\nname: x\nfoo bar\n---\n", "line 3: 'foo bar' is no field"),
        ("---\ndescription: x\n---\n", "is no name"),
        ("---\nname: Big\ndescription: x\n---\n", "'Big' is no name"),
        ("---\nname: ../up\ndescription: x\n---\n", "is no name"),
        ("---\nname: x\n---\n", "needs a description"),
        (f"---\nname: x\ndescription: {'y' * 1025}\n---\n", "needs a description"),
        ("---\nname: x\ndescription:\n  a: b\n---\n", "needs a description"),
    ],
)
def test_what_is_not_of_the_format(text, told):
    with pytest.raises(BadValue, match=r"SKILL\.md") as caught:
        read(text)
    assert told in caught.value.message


def test_no_text():
    with pytest.raises(BadValue, match="no text in UTF-8"):
        read_skill(b"---\n\xff", "SKILL.md")


def test_names():
    assert is_name("a") and is_name("a-1-b") and is_name("a" * 64)
    for wrong in ("", "-a", "a-", "a--b", "A", "a_b", "a/b", "..", "a" * 65, "ä"):
        assert not is_name(wrong)
