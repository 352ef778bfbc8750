"""Which tools a session has."""

from __future__ import annotations

from tenure.config import Config, LimitsConfig
from tenure.tools.background import Background
from tenure.tools.base import Tool
from tenure.tools.browser import BrowserSave, BrowserTool
from tenure.tools.clarify import Clarify
from tenure.tools.delegate import Delegate
from tenure.tools.files import Edit, Read, Write
from tenure.tools.find import Glob, List, Search
from tenure.tools.recall import Recall
from tenure.tools.shell import Shell
from tenure.tools.terminal import TerminalTool
from tenure.tools.todo import Todo
from tenure.tools.web.fetch import WebFetch
from tenure.tools.web.reach import Reach
from tenure.tools.web.search import WebSearch

SMALL_OUTPUT_BYTES = 3_000
"""What a small model gets of one result; about 800 tokens of its 8,192."""

CLARIFY_PAUSE_S = 0.1

SMALL_ENTRIES = 24
"""Names that it gets of one folder; with a long list in sight it forgets what it was asked."""


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
        TerminalTool(output),
        Todo(),
        Recall(output),
        Clarify(CLARIFY_PAUSE_S),
    )


def small_tools(limits: LimitsConfig) -> tuple[Tool, ...]:
    """Four tools with short outputs, for models whose prompts must be tiny."""
    output = min(limits.tool_output_bytes_max, SMALL_OUTPUT_BYTES)
    return (Shell(output, limits.tool_timeout_s), Read(output), Write(), List(SMALL_ENTRIES))


def web_tools(config: Config, reach: Reach) -> tuple[Tool, ...]:
    """What reaches the web, where the configuration lets it."""
    if not config.web.enabled:
        return ()
    output = config.limits.tool_output_bytes_max
    tools: list[Tool] = [WebFetch(config.web, output, reach)]
    if config.web.search.provider != "off":
        tools.append(WebSearch(config.web, output, reach))
    browsers = reach.browsers
    if browsers is not None and browsers.look(config.browser).executable:
        tools += [BrowserTool(config, browsers), BrowserSave(config, browsers)]
    return tuple(tools)


def tools_for(config: Config, small: bool, reach: Reach | None = None) -> tuple[Tool, ...]:
    """The set for a model: the small one where prompts must be tiny.

    Args:
        config: limits and rules.
        small: whether the prompts must be tiny.
        reach: what tools of the web are given; None: there are none of them.
    """
    if small:
        return small_tools(config.limits)
    web = web_tools(config, reach) if reach is not None else ()
    delegates = (Delegate(),) if config.delegation.enabled else ()
    return (*default_tools(config.limits), *delegates, *web)


class Toolbox:
    """The sets of one profile; sessions share them for as long as the configuration stands.

    Args:
        reach: see `tools_for`.
    """

    def __init__(self, reach: Reach | None = None) -> None:
        self._reach = reach
        self._made: dict[bool, tuple[Config, tuple[Tool, ...]]] = {}

    def __call__(self, config: Config, small: bool) -> tuple[Tool, ...]:
        """The set for a model; see `tools_for`."""
        made = self._made.get(small)
        if made is None or made[0] is not config:
            made = self._made[small] = config, tools_for(config, small, self._reach)
        return made[1]
