"""Which tools a session has."""

from __future__ import annotations

import functools

from tenure.config import Config, LimitsConfig
from tenure.tools.background import Background
from tenure.tools.base import Tool
from tenure.tools.clarify import Clarify
from tenure.tools.files import Edit, Read, Write
from tenure.tools.find import Glob, List, Search
from tenure.tools.recall import Recall
from tenure.tools.shell import Shell

SMALL_OUTPUT_BYTES = 3_000
"""What a small model gets of one result; about 800 tokens of its 8,192."""

CLARIFY_PAUSE_S = 0.1

SMALL_ENTRIES = 24
"""Names that it gets of one folder; with a long list in sight it forgets what it was asked."""


@functools.lru_cache(maxsize=8)
def default_tools(limits: LimitsConfig) -> tuple[Tool, ...]:
    """The full set, in the order in which the model sees it. Stateless; share it freely."""
    output = limits.tool_output_bytes_max
    return (
        Shell(output, limits.tool_timeout_s, secrets=True),
        Read(output),
        Write(),
        Edit(),
        List(),
        Glob(),
        Search(output),
        Background(output, limits.background_max),
        Recall(output),
        Clarify(CLARIFY_PAUSE_S),
    )


@functools.lru_cache(maxsize=8)
def small_tools(limits: LimitsConfig) -> tuple[Tool, ...]:
    """Four tools with short outputs, for models whose prompts must be tiny."""
    output = min(limits.tool_output_bytes_max, SMALL_OUTPUT_BYTES)
    return (Shell(output, limits.tool_timeout_s), Read(output), Write(), List(SMALL_ENTRIES))


def tools_for(config: Config, small: bool) -> tuple[Tool, ...]:
    """The set for a model: the small one where prompts must be tiny."""
    return small_tools(config.limits) if small else default_tools(config.limits)
