"""What races: every primitive, every pair of operations, what is shared, and whole programs."""

from __future__ import annotations

from functools import cache

from proof.schedules import Scenario


@cache
def all_scenarios() -> dict[str, Scenario]:
    """Every scenario by its name."""
    from proof.scenarios import (
        boxes,
        delegating,
        inside,
        lent,
        lifecycle,
        pairs,
        programs,
        shared,
        waiting,
    )

    found: dict[str, Scenario] = {}
    modules = (lifecycle, waiting, lent, inside, boxes, pairs, shared, delegating, programs)
    for module in modules:
        for scenario in module.SCENARIOS:
            assert scenario.name not in found, scenario.name
            found[scenario.name] = scenario
    return found
