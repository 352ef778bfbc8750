"""Who may speak to the gateway: one judgement for HTTP requests and WebSocket upgrades. Pure.

Loopback is not identity: everyone needs the token. Host and peer are checked against DNS rebinding
and stray binds, Origin against pages of other sites; wrong tokens are throttled, wherever they come
from. A correct token is never throttled, so nobody can lock the owner out.
"""

from __future__ import annotations

import hmac
import ipaddress
from collections import OrderedDict
from urllib.parse import urlsplit

import msgspec

BAD_TOKENS_MAX = 10
"""Wrong tokens from one address within the window before further ones are throttled."""
WINDOW_S = 60.0
ADDRESSES_MAX = 1024
PIPES = frozenset({"in-process", "stdio"})
"""What transports without an address call their peers."""
_LOCAL_NAMES = frozenset({"127.0.0.1", "localhost", "::1"})


class Knock(msgspec.Struct, frozen=True):
    """What a request shows of itself before anything is read from it."""

    peer: str
    """Address of the other end."""
    host: str
    """The Host header."""
    origin: str | None
    """The Origin header, if any."""
    bearer: str | None
    """Token of the Authorization header."""
    query_token: str | None
    """Token of the query; upgrades only."""


class Verdict(msgspec.Struct, frozen=True):
    """`status` is an HTTP status; 200 lets in. `reason` is one sentence without secrets."""

    status: int
    reason: str = ""

    @property
    def admitted(self) -> bool:
        """Whether it may pass."""
        return self.status == 200


class Admission:
    """The rules of one gateway and its memory of wrong tokens.

    Args:
        token: the secret.
        allow_hosts: names beyond loopback under which the gateway may be addressed; with one,
            peers from elsewhere are let in too.
        allow_origins: web origins whose pages may connect.
    """

    def __init__(
        self, token: str, allow_hosts: tuple[str, ...] = (), allow_origins: tuple[str, ...] = ()
    ) -> None:
        self._token = token.encode()
        self._hosts = frozenset(h.lower() for h in allow_hosts)
        self._origins = frozenset(o.lower().rstrip("/") for o in allow_origins)
        self._wrong: OrderedDict[str, list[float]] = OrderedDict()

    def judge(self, knock: Knock, now_s: float) -> Verdict:
        """Decide.

        Args:
            knock: the request.
            now_s: monotonic seconds, for the throttle.
        """
        host = _host_name(knock.host)
        if host not in _LOCAL_NAMES and host not in self._hosts:
            return Verdict(403, "This Host is not allowed; start with --allow-host NAME.")
        if not self._hosts and not _is_loopback(knock.peer):
            return Verdict(403, "Peers from elsewhere need --allow-host NAME.")
        if knock.origin is not None and not self._origin_allowed(knock.origin, knock.host):
            return Verdict(403, "This Origin is not allowed; add it to server.allow_origins.")
        if self._token_matches(knock.bearer) or self._token_matches(knock.query_token):
            return Verdict(200)
        return self._wrong_token(knock.peer, now_s)

    def _origin_allowed(self, origin: str, host: str) -> bool:
        if origin.lower().rstrip("/") in self._origins:
            return True
        try:
            parts = urlsplit(origin)
        except ValueError:  # "http://["
            return False
        return parts.scheme in {"http", "https"} and parts.netloc.lower() == host.lower()

    def _token_matches(self, given: str | None) -> bool:
        return given is not None and hmac.compare_digest(given.encode(), self._token)

    def _wrong_token(self, peer: str, now_s: float) -> Verdict:
        recent = [t for t in self._wrong.pop(peer, []) if now_s - t < WINDOW_S]
        recent.append(now_s)
        self._wrong[peer] = recent[-BAD_TOKENS_MAX - 1 :]
        while len(self._wrong) > ADDRESSES_MAX:
            self._wrong.popitem(last=False)
        if len(recent) > BAD_TOKENS_MAX:
            return Verdict(429, "Too many wrong tokens; wait a minute.")
        return Verdict(401, "The token is missing or wrong; `tenure url` prints the right URL.")


def _host_name(host: str) -> str:
    """The name in a Host header, without the port."""
    text = host.strip().lower()
    if text.startswith("["):
        return text[1:].partition("]")[0]
    return text.rpartition(":")[0] if text.count(":") == 1 else text


def is_near(peer: str) -> bool:
    """Whether a transport's peer (``ADDRESS:PORT``, or a pipe's name) is on this machine."""
    return peer in PIPES or _is_loopback(peer.rpartition(":")[0])


def _is_loopback(peer: str) -> bool:
    try:
        return ipaddress.ip_address(peer).is_loopback
    except ValueError:
        return False
