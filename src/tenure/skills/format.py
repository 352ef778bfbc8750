"""The public Agent Skills format: a ``SKILL.md`` with a few fields before its text.

The fields are YAML, of which this reads what such files hold: scalars (plain, quoted, folded,
literal), one level of names below a name, and lists. Members that nobody knows are ignored.
"""

from __future__ import annotations

import json
import re

import msgspec

from tenure.errors import BadValue

FILE = "SKILL.md"
FILE_BYTES_MAX = 96 * 1024
"""Of a SKILL.md."""
NAME_CHARS_MAX = 64
DESCRIPTION_CHARS_MAX = 1024
COMPATIBILITY_CHARS_MAX = 500
_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_KEY = re.compile(r"([A-Za-z0-9_.-]+):(?:[ \t]+(.*))?$")
_BLOCK = re.compile(r"([|>])[0-9+-]*(?:\s+#.*)?$")
_Value = str | list[str] | dict[str, str]


class Skill(msgspec.Struct, frozen=True, kw_only=True):
    """What a SKILL.md says.

    Attributes:
        name: 1-64 of a-z, 0-9 and single dashes.
        description: what it does and when it is to be used.
        body: the instructions, Markdown.
        license: as it says.
        compatibility: what it needs of its surroundings.
        allowed_tools: tools that it means to use. Nothing is allowed by that.
        metadata: what else it says of itself.
    """

    name: str
    description: str
    body: str
    license: str = ""
    compatibility: str = ""
    allowed_tools: tuple[str, ...] = ()
    metadata: dict[str, str] = {}


def is_name(text: str) -> bool:
    """Whether a skill can be called so."""
    return len(text) <= NAME_CHARS_MAX and bool(_NAME.fullmatch(text))


def read_skill(raw: bytes, where: str) -> Skill:
    """Read a SKILL.md.

    Args:
        raw: its bytes.
        where: what to call it in an error.

    Raises:
        BadValue: it is not of that format; says why.
    """
    try:
        text = raw.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError:
        raise BadValue(f"{where} is no text in UTF-8.") from None
    head, body = _split(text, where)
    fields = _fields(head, where)
    name, description = _text(fields, "name"), _text(fields, "description")
    if not is_name(name):
        raise BadValue(
            f"{where}: {name[:80]!r} is no name of a skill; use 1 to {NAME_CHARS_MAX} of a-z, 0-9 "
            "and single dashes."
        )
    if not description or len(description) > DESCRIPTION_CHARS_MAX:
        raise BadValue(f"{where} needs a description of 1 to {DESCRIPTION_CHARS_MAX:,} characters.")
    metadata = fields.get("metadata", {})
    return Skill(
        name=name,
        description=" ".join(description.split()),
        body=body.strip(),
        license=_text(fields, "license"),
        compatibility=_text(fields, "compatibility")[:COMPATIBILITY_CHARS_MAX],
        allowed_tools=_words(fields.get("allowed-tools", "")),
        metadata=metadata if isinstance(metadata, dict) else {},
    )


def _split(text: str, where: str) -> tuple[list[str], str]:
    """The lines between the two marks, and what follows."""
    lines = text.split("\n")
    if lines[0].rstrip() != "---":
        raise BadValue(f"{where} does not begin with a line of three dashes and its fields.")
    for at, line in enumerate(lines[1:], 1):
        if line.rstrip() == "---":
            return lines[1:at], "\n".join(lines[at + 1 :])
    raise BadValue(f"The fields of {where} are not ended by a line of three dashes.")


def _fields(lines: list[str], where: str) -> dict[str, _Value]:
    found: dict[str, _Value] = {}
    at = 0
    while at < len(lines):
        line = lines[at]
        at += 1
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        hit = _KEY.match(line)
        if hit is None:
            raise BadValue(f"{where}, line {at + 1}: {line.strip()[:60]!r} is no field.")
        below: list[str] = []
        while at < len(lines) and (not lines[at].strip() or lines[at][0] in " \t-"):
            below.append(lines[at])
            at += 1
        found[hit[1]] = _value((hit[2] or "").strip(), below)
    return found


def _value(first: str, below: list[str]) -> _Value:
    """What stands behind a name, and indented below it."""
    if block := _BLOCK.match(first):
        return _block(below, folded=block[1] == ">")
    if first.startswith("[") and first.endswith("]"):
        return [item for part in first[1:-1].split(",") if (item := _scalar(part))]
    told = [line.strip() for line in below if line.strip() and not line.lstrip().startswith("#")]
    if first:
        return _scalar(" ".join([first, *told]))
    if told and all(line.startswith("- ") for line in told):
        return [_scalar(line[2:]) for line in told]
    named = [_KEY.match(line) for line in told]
    if told and all(named):
        return {hit[1]: _scalar(hit[2] or "") for hit in named if hit}
    return _scalar(" ".join(told))


def _block(below: list[str], *, folded: bool) -> str:
    """A text of its own lines; folded ones become one, but for empty lines between."""
    filled = [line for line in below if line.strip()]
    indent = min((len(line) - len(line.lstrip()) for line in filled), default=0)
    text = "\n".join(line[indent:].rstrip() for line in below).strip("\n")
    if not folded:
        return text
    return "\n".join(" ".join(part.split("\n")) for part in re.split(r"\n{2,}", text))


def _scalar(text: str) -> str:
    text = text.strip()
    if text.startswith('"'):
        quoted = re.match(r'"(?:[^"\\]|\\.)*"', text)
        try:
            return str(json.loads(quoted[0])) if quoted else text.strip('"')
        except ValueError:
            return text.strip('"')
    if text.startswith("'"):
        quoted = re.match(r"'((?:[^']|'')*)'", text)
        return quoted[1].replace("''", "'") if quoted else text.strip("'")
    return re.split(r"\s#", text, maxsplit=1)[0].rstrip()


def _text(fields: dict[str, _Value], name: str) -> str:
    value = fields.get(name, "")
    return value.strip() if isinstance(value, str) else ""


def _words(value: _Value) -> tuple[str, ...]:
    """Names of tools: a list, or words between spaces or commas outside of brackets."""
    if isinstance(value, list):
        return tuple(value)
    return tuple(re.findall(r"[^\s,(]+(?:\([^)]*\))?", value)) if isinstance(value, str) else ()
