"""What an agent is made of, acquired step by step in a scope of its own.

Each step's product is owned by the agent's scope the moment it exists; a close during any step
frees exactly what was acquired, in reverse, and publishes nothing. Switching the model builds a
second agent and closes the first: there is no other way out.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import msgspec

from tenure.checkpoints.keeper import Checkpoints
from tenure.clock import Clock
from tenure.config import DEFAULT_PROFILE, Config
from tenure.lifecycle.scope import Scope
from tenure.models.base import Model, ModelRequest, Picked
from tenure.paths import kept
from tenure.processes.spawn import Spawner
from tenure.reload import LiveConfig
from tenure.sandbox.base import Sandbox
from tenure.sandbox.choice import Sandboxes
from tenure.sessions.budget import Memory
from tenure.sessions.grants import Grants
from tenure.sessions.memories import Memories
from tenure.sessions.system_prompt import Prompt, PromptFacts, Prompts
from tenure.sessions.uploaded import Uploads
from tenure.skills.shelf import Shelf
from tenure.skills.tool import SkillTool
from tenure.store.base import Store
from tenure.tools.base import Tool, fitted
from tenure.tools.memory import MEMORY_TOOL
from tenure.toolservers.lending import ToolServers


class ModelPicker(Protocol):
    """The seam to models: finds one and borrows what it needs."""

    async def pick(self, wanted: str, into: Scope) -> Picked:
        """The model for `wanted` (empty: choose). What it shares is borrowed into `into`.

        Raises:
            ModelError, ConfigError, BadValue: none can be had; one sentence.
        """

    def read_ahead(self, model: Model, prefix: Callable[[], ModelRequest], into: Scope) -> None:
        """Let `model` read what every request will begin with, where that pays; owned by `into`."""

    async def options(self) -> dict[str, Any]:
        """Providers and models to choose from, for ``model.options``."""

    async def ready(self) -> tuple[bool, str, str]:
        """Whether some model can serve, which, and why (nothing is started)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionPorts:
    """What every session is given. The gateway owns all of it."""

    store: Store
    clock: Clock
    config: Callable[[], Config]
    models: ModelPicker
    tools: Callable[[Config, bool], tuple[Tool, ...]]
    """The tool set for a configuration and whether the model is small."""
    spawner: Spawner
    grants: Grants
    spill: Path
    user_home: Path
    """Where the search for AGENTS.md files upward ends."""
    holder: str
    """Who takes the leases: this gateway's instance."""
    checkpoints: Checkpoints | None = None
    """Where what turns change is saved first; None: nowhere."""
    uploads: Uploads | None = None
    """Keeps what comes with prompts; None: nothing can come."""
    private: tuple[Path, ...] = ()
    """The gateway's own folders: no file of theirs comes with a prompt."""
    profile: str = DEFAULT_PROFILE
    """Whose store, models and grants these are."""
    toolservers: ToolServers | None = None
    """The profile's tool servers; None: there are none."""
    memories: Memories | None = None
    """What the profile's agents remember; None: nothing."""
    shelf: Shelf | None = None
    """The profile's skills; None: there are none."""
    sandboxes: Sandboxes | None = None
    """Makes the places where commands run; None: they run unconfined."""
    live: LiveConfig | None = None
    """What `config` follows; None: it never changes."""
    prompts: Prompts = field(default_factory=Prompts)
    memory: Memory = field(default_factory=Memory)
    """The budgets of all sessions of the gateway."""

    def look(self) -> None:
        """Let the configuration follow its files; between two turns."""
        if self.live is not None:
            self.live.look()


class Agent(msgspec.Struct, frozen=True, eq=False):
    """A built agent. Its scope owns what it borrowed.

    Attributes:
        scope: ends it.
        model: what answers.
        reason: why this model.
        tools: what it may call.
        prompt: the system text and where its parts came from.
        config: what it was made from; see `sessions/configured.py`.
    """

    scope: Scope
    model: Model
    reason: str
    tools: tuple[Tool, ...]
    prompt: Prompt
    config: Config


async def build_agent(
    session: Scope, ports: SessionPorts, wanted: str, cwd: str, sandbox: Sandbox
) -> Agent:
    """Build an agent below `session`, whose tools work in `sandbox`.

    Ownership: the returned agent's scope is a child of `session`; closing either ends it.
    Cancellation: what was acquired is released before the cancellation goes on.

    Raises:
        ScopeClosed: the session is being closed.
        ModelError, ConfigError, BadValue: no model can be had.
    """
    scope = session.child("agent")
    try:
        ports.look()
        config = ports.config()
        picked = await ports.models.pick(wanted, scope)
        tools = fitted(ports.tools(config, picked.model.small), sandbox)
        elsewhere = sandbox.root if sandbox.files is not None else None
        small, now = picked.model.small, ports.clock.wall()
        shelf = ports.shelf if config.skills.enabled else None
        facts = PromptFacts(kept(cwd), ports.user_home, small, now, elsewhere, shelf)
        prompt = await ports.prompts.read(scope, facts)
        if shelf is not None and any(not skill.problem for skill in prompt.skills):
            project = facts.project(facts.folders)
            tools += (SkillTool(shelf, project, config.limits.tool_output_bytes_max),)
        if ports.memories is not None and config.memory.enabled and not small:
            await ports.memories.ready()
            tools = _with_memory(tools)
        ports.models.read_ahead(picked.model, partial(_prefix, prompt, tools), scope)
    except BaseException:
        await scope.close("build failed")
        raise
    return Agent(scope, picked.model, picked.reason, tools, prompt, config)


@functools.lru_cache(maxsize=64)
def _with_memory(tools: tuple[Tool, ...]) -> tuple[Tool, ...]:
    """Those of all agents alike are one tuple."""
    return (*tools, MEMORY_TOOL)


def _prefix(prompt: Prompt, tools: tuple[Tool, ...]) -> ModelRequest:
    """What every request of an agent begins with."""
    return ModelRequest(prompt.text, (), tuple(tool.spec for tool in tools))
