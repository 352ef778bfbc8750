"""What the tools of the web are given, and the pieces of it that they share."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from tenure.browser.lending import Browsers
from tenure.clock import Clock
from tenure.lifecycle.imports import import_off_loop
from tenure.lifecycle.scope import Scope
from tenure.lifecycle.threads import run_in_thread
from tenure.net.addresses import AddressRules
from tenure.net.certificates import certificates
from tenure.net.dialing import Dialer, Resolve
from tenure.settings import WebConfig

if TYPE_CHECKING:
    import httpcore


def _no_keys() -> Mapping[str, str]:
    return {}


@dataclass(frozen=True, slots=True)
class Reach:
    """What a gateway gives to its tools of the web.

    Attributes:
        environ: for the certificates and the keys of search providers. Never for proxies.
        keys: the stored keys of search providers, by their names.
        resolve: looks names up; None: the system.
        browsers: who lends a browser; None: there is none.
    """

    environ: Mapping[str, str]
    keys: Callable[[], Mapping[str, str]] = _no_keys
    resolve: Resolve | None = None
    browsers: Browsers | None = None


class Line(NamedTuple):
    """A way out: connections, and what judges their addresses. The call's scope owns it."""

    pool: httpcore.AsyncConnectionPool
    dialer: Dialer


async def open_line(
    scope: Scope, clock: Clock, config: WebConfig, reach: Reach, *, also: tuple[str, ...] = ()
) -> Line:
    """Connections within the rules of `config`; `scope` closes them.

    Args:
        scope: of the one call.
        clock: time.
        config: what is allowed, and the proxy.
        reach: certificates and names.
        also: more that is allowed, in this call.

    Raises:
        ConfigError: a certificate file cannot be read.
    """
    http = await import_off_loop("tenure.net.http")
    verify: ssl.SSLContext = await run_in_thread(scope, certificates, reach.environ)
    dialer = Dialer(AddressRules((*config.allow, *also)), clock, reach.resolve)
    return Line(http.open_pool(scope, dialer, verify, config.proxy), dialer)
