"""The census: what is held, what it uses, and whether the system agrees."""

from __future__ import annotations

from typing import Any

import msgspec

from tenure.protocol.params import Params


class CensusGet(Params, kw_only=True):
    """Params of census.get."""

    owner: str = ""
    """Only what stands under this path."""


class AccountRow(msgspec.Struct, kw_only=True):
    """What the processes of one owner use now."""

    processes: int
    fds: int
    rss_bytes: int
    """Resident bytes; what processes share counts for each."""
    cpu_s: float
    """Of those that run, since their start."""


class Census(msgspec.Struct):
    """Result of census.get."""

    entries: list[dict[str, Any]]
    gateway: dict[str, Any]
    accounts: dict[str, AccountRow] = {}
    """By owner: a session's id, or the name of what else has started them."""


class CensusNothing(Params, kw_only=True):
    """Params of census.verify."""


class Difference(msgspec.Struct, kw_only=True):
    """Something that is held and does not run, or runs and is not held."""

    kind: str
    """stray: it runs and nobody holds it. gone: it is held and does not run. leaked: it was to be
    released and could not be."""
    what: str
    owner: str
    pid: int
    healed: bool
    """It has been put right: a stray has been ended."""


class CensusVerdict(msgspec.Struct, kw_only=True):
    """Result of census.verify."""

    differences: list[Difference]
    trees: int
    """Processes of ours that are held, each with all that it has started."""
    processes: int
    found: int
    """Differences since the gateway's start."""


class CensusWatch(Params, kw_only=True):
    """Params of census.watch."""

    watching: bool = True


class CensusWatched(msgspec.Struct):
    """Result of census.watch."""

    watching: bool


class CensusChange(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Payload of census.change: what came and went within a second."""

    added: list[dict[str, Any]]
    """As in census.get, with a `key` that is never used again."""
    removed: list[int]
    """Keys."""


CENSUS_METHODS: dict[str, tuple[type[msgspec.Struct], Any, str]] = {
    "census.get": (CensusGet, Census, "Everything held, by owner."),
    "census.verify": (
        CensusNothing,
        CensusVerdict,
        "Compare what is held with what runs; what nobody holds is ended.",
    ),
    "census.watch": (CensusWatch, CensusWatched, "Be told what comes and goes, or no more."),
}
"""name -> (params, result, about)"""
