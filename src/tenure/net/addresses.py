"""Which addresses of the network a session may reach. Pure.

Whoever can be told to open a URL can be told to open ``http://169.254.169.254/``: the keys of the
machine in a cloud, a router's settings, a database without a password. So only addresses of the
public internet are reached, unless ``[web] allow`` names more. What is judged is always an address
that a connection then goes to, never a name: a name may mean another address a moment later.
"""

from __future__ import annotations

import fnmatch
import ipaddress
import re
from collections.abc import Iterable
from typing import NamedTuple

from tenure.errors import AddressRefused
from tenure.ids import whole_number

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

NOT_PUBLIC_V4: tuple[tuple[ipaddress.IPv4Network, str], ...] = tuple(
    (ipaddress.IPv4Network(text), what)
    for text, what in (
        ("0.0.0.0/8", "this machine"),
        ("10.0.0.0/8", "a private network"),
        ("100.64.0.0/10", "a carrier's private network"),
        ("127.0.0.0/8", "this machine"),
        ("169.254.0.0/16", "link-local"),
        ("172.16.0.0/12", "a private network"),
        ("192.0.0.0/24", "reserved"),
        ("192.0.2.0/24", "for documentation"),
        ("192.88.99.0/24", "a relay that is not used any more"),
        ("192.168.0.0/16", "a private network"),
        ("198.18.0.0/15", "for benchmarks"),
        ("198.51.100.0/24", "for documentation"),
        ("203.0.113.0/24", "for documentation"),
        ("224.0.0.0/4", "multicast"),
        ("240.0.0.0/4", "reserved"),
    )
)
PUBLIC_V6 = ipaddress.IPv6Network("2000::/3")
"""Everything else of IPv6 is this machine, link-local, private, multicast or not given out."""
NOT_PUBLIC_V6: tuple[tuple[ipaddress.IPv6Network, str], ...] = tuple(
    (ipaddress.IPv6Network(text), what)
    for text, what in (
        ("2001::/23", "reserved, or a tunnel"),
        ("2001:db8::/32", "for documentation"),
        ("2002::/16", "a 6to4 tunnel"),
        ("3fff::/20", "for documentation"),
    )
)
NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
"""IPv4 as a network sees it that has only IPv6; the last four bytes are the address meant."""
METADATA: frozenset[Address] = frozenset(
    ipaddress.ip_address(text)
    for text in (
        "169.254.169.254", "169.254.170.2", "169.254.170.23", "168.63.129.16", "100.100.100.200",
        "192.0.0.192", "fd00:ec2::254", "fd20:ce::254",
    )
)  # fmt: skip
"""Where clouds hand a machine its keys. Reached only if that very address is allowed."""


_LABEL = re.compile(r"[a-z0-9_*-]{1,63}")


class _Allowed(NamedTuple):
    """One entry of ``[web] allow``: a network, or a glob over names; a port, or any (0)."""

    network: Network | None
    name: str
    port: int


class AddressRules:
    """What may be connected to.

    Args:
        allow: over the public internet: addresses, networks (``10.1.0.0/16``), names of hosts or
            globs over them (``*.corp.example``); each with ``:PORT`` if only that one is meant.

    Raises:
        ValueError: an entry is none of these.
    """

    def __init__(self, allow: Iterable[str] = ()) -> None:
        self._allowed = tuple(parse_allowed(entry) for entry in allow)

    def check(self, host: str, address: str, port: int) -> None:
        """Refuse `address`, to which `host` leads, unless it may be reached.

        Raises:
            AddressRefused: a sentence that says why, and how to allow it.
        """
        found = ipaddress.ip_address(address.partition("%")[0])
        meant = _meant(found)
        if any(_is_exactly(entry, found, meant, port) for entry in self._allowed):
            return
        if found in METADATA or meant in METADATA:
            why = "where a cloud hands out its keys"
        else:
            why = _why_not(meant)
            if not why or any(_allows(e, host, found, meant, port) for e in self._allowed):
                return
        leads = "" if host in {address, str(found)} else f", to which {host[:100]} leads,"
        raise AddressRefused(
            f"{address}{leads} is {why}; it is reached only if [web] allow in the configuration "
            "names it."
        )


def parse_allowed(entry: str) -> _Allowed:
    """Read an entry of ``[web] allow``.

    Raises:
        ValueError: it is no address, network or name.
    """
    text, port = entry.strip().lower(), 0
    network = _network(text)
    if network is None:
        head, colon, tail = text.rpartition(":")
        number = whole_number(tail) or 0
        if colon and 0 < number <= 65_535:
            text, port = head.strip("[]"), number
            network = _network(text)
    if network is None and not _is_name(text):
        raise ValueError(entry)
    return _Allowed(network, "" if network else text.rstrip("."), port)


def is_address(host: str) -> bool:
    """Whether `host` is an address, not a name."""
    try:
        ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return True


def _network(text: str) -> Network | None:
    try:
        return ipaddress.ip_network(text.strip("[]"), strict=False)
    except ValueError:
        return None


def _is_name(text: str) -> bool:
    return len(text) <= 253 and all(map(_LABEL.fullmatch, text.rstrip(".").split(".")))


def _meant(found: Address) -> Address:
    """The IPv4 address that an IPv6 one stands for, or itself."""
    if isinstance(found, ipaddress.IPv6Address):
        if found.ipv4_mapped is not None:
            return found.ipv4_mapped
        if found in NAT64:
            return ipaddress.IPv4Address(int(found) & 0xFFFF_FFFF)
    return found


def _why_not(meant: Address) -> str:
    """Why an address is not one of the public internet; "" if it is."""
    if isinstance(meant, ipaddress.IPv4Address):
        return next((what for network, what in NOT_PUBLIC_V4 if meant in network), "")
    if meant in PUBLIC_V6:
        return next((what for network, what in NOT_PUBLIC_V6 if meant in network), "")
    if meant.is_loopback or meant.is_unspecified:
        return "this machine"
    if meant.is_multicast:
        return "multicast"
    if meant.is_link_local:
        return "link-local"
    return "a private network" if meant.is_private else "reserved"


def _is_exactly(entry: _Allowed, found: Address, meant: Address, port: int) -> bool:
    network = entry.network
    if network is None or network.num_addresses != 1 or entry.port not in {0, port}:
        return False
    return network.network_address in {found, meant}


def _allows(entry: _Allowed, host: str, found: Address, meant: Address, port: int) -> bool:
    network = entry.network
    if network is None:
        return _names(entry, host, port)
    if entry.port not in {0, port}:
        return False
    return any(one.version == network.version and one in network for one in (found, meant))


def _names(entry: _Allowed, host: str, port: int) -> bool:
    if entry.network is not None or entry.port not in {0, port}:
        return False
    return fnmatch.fnmatchcase(host.lower().rstrip("."), entry.name)
