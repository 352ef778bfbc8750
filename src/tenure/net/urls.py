"""URLs, read once and in one way: what is judged is what is connected to. Pure."""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import quote, urljoin, urlsplit

from tenure.errors import ToolError

URL_CHARS_MAX = 8_000
HOST_CHARS_MAX = 253
_SAFE = "/%:@!$&'()*+,;=~-._"
_DEFAULT_PORTS = {"http": 80, "https": 443}


class Url(NamedTuple):
    """An http or https URL.

    Attributes:
        scheme: "http" or "https".
        host: a name in ASCII, lower case, or an address without brackets.
        port: always a number.
        target: path and query, escaped.
    """

    scheme: str
    host: str
    port: int
    target: str

    @property
    def netloc(self) -> str:
        """Host and port as they stand in a URL; the port only where it is not the usual one."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"

    def __str__(self) -> str:
        return f"{self.scheme}://{self.netloc}{self.target}"


def parse_url(text: str, base: Url | None = None) -> Url:
    """Read a URL.

    Args:
        text: what somebody wrote; without a scheme it is read as https.
        base: what a relative one is relative to.

    Raises:
        ToolError: it is no http or https URL, or has a user name in it.
    """
    shown = text.strip()[:200]
    if len(text) > URL_CHARS_MAX:
        raise ToolError(f"The URL is longer than {URL_CHARS_MAX} characters: {shown}…")
    text = text.strip()
    if base is not None:
        text = urljoin(str(base), text)
    elif not re.match(r"[A-Za-z][A-Za-z0-9+.-]*:", text) or re.match(r"[^/:]+:\d+(/|$)", text):
        text = f"https://{text}"
    if re.search(r"[\x00-\x20\x7f\\]", text):
        raise ToolError(f"{shown!r} is no URL: blanks and backslashes are written as %20 and %5C.")
    try:
        parts = urlsplit(text)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise ToolError(f"{shown!r} is no URL.") from None
    if parts.scheme not in _DEFAULT_PORTS:
        raise ToolError(f"{shown!r} is neither http nor https; nothing else is opened.")
    if parts.username is not None or parts.password is not None:
        raise ToolError(f"The URL of {host[:100]} has a user name in it; leave that out.")
    if not host or port == 0:
        raise ToolError(f"{shown!r} names no host.")
    target = quote(parts.path or "/", safe=_SAFE)
    if parts.query:
        target += f"?{quote(parts.query, safe=_SAFE + '?')}"
    return Url(parts.scheme, _ascii(host, shown), port or _DEFAULT_PORTS[parts.scheme], target)


def host_of(text: str) -> str:
    """The host that `text` leads to, as `parse_url` reads it; "" if it is no URL."""
    try:
        return parse_url(text).host
    except ToolError:
        return ""


def same_site(one: str, other: str) -> bool:
    """Whether two hosts are the same but for a leading ``www.``."""
    return one.removeprefix("www.") == other.removeprefix("www.")


def _ascii(host: str, shown: str) -> str:
    host = host.lower().rstrip(".")
    if not host.isascii():
        import idna

        try:
            host = idna.encode(host[:HOST_CHARS_MAX], uts46=True).decode("ascii")
        except idna.IDNAError:
            raise ToolError(f"{shown!r} names no host that there can be.") from None
    if len(host) > HOST_CHARS_MAX or not re.fullmatch(r"[a-z0-9._:-]+", host):
        raise ToolError(f"{shown!r} names no host that there can be.")
    return host
