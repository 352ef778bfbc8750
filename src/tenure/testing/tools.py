"""A tool that does what the test says, and counts."""

from __future__ import annotations

import asyncio
from typing import ClassVar

import msgspec

from tenure.conversation import ToolSpec
from tenure.errors import ToolError
from tenure.testing.gates import Gate
from tenure.tools.base import Effect, ToolContext, ToolResult, TypedTool


class ScriptedArgs(msgspec.Struct, frozen=True):
    """Arguments of `scripted_tool`."""

    text: str = "ok"
    fail: bool = False
    crash: bool = False


class _Scripted(TypedTool[ScriptedArgs]):
    """Echoes its text, after the gate if it has one."""

    description = "Does what the test says."
    args = ScriptedArgs

    def __init__(self, gate: Gate | None, *, deaf: bool) -> None:
        self.gate = gate
        self.deaf = deaf
        self.started: list[str] = []
        """Texts of the calls that began."""
        self.effects: list[str] = []
        """Texts of the calls that went through: the effect counter."""
        self.running = 0
        self.most_running = 0

    async def run(self, args: ScriptedArgs, ctx: ToolContext) -> ToolResult:
        """Count, wait, echo."""
        self.started.append(args.text)
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        try:
            ctx.output(f"working on {args.text}")
            await asyncio.sleep(0)
            if self.gate is not None:
                await self._wait(self.gate)
        finally:
            self.running -= 1
        if args.fail:
            raise ToolError(f"{args.text} failed.")
        if args.crash:
            raise ZeroDivisionError(args.text)
        self.effects.append(args.text)
        return ToolResult(args.text, summary=args.text)

    async def _wait(self, gate: Gate) -> None:
        while True:
            try:
                return await gate.park()
            except asyncio.CancelledError:
                if not self.deaf:
                    raise


def scripted_tool(
    name: str = "probe",
    *,
    effect: Effect = Effect.READ,
    gate: Gate | None = None,
    deaf: bool = False,
) -> _Scripted:
    """A scripted tool under a name and with an effect of your choice.

    Args:
        name: as the model calls it.
        effect: for approvals.
        gate: holds every call until released.
        deaf: the tool ignores cancellation while it waits at the gate.
    """
    made = type("Scripted", (_Scripted,), {"name": name, "effect": effect})
    tool: _Scripted = made(gate, deaf=deaf)
    return tool


class PlainTool:
    """A tool that is no `TypedTool`: returns its arguments as they came."""

    name: ClassVar[str] = "plain"
    effect: ClassVar[Effect] = Effect.READ

    @property
    def spec(self) -> ToolSpec:
        """Any object."""
        return ToolSpec(self.name, "Echoes.", {"type": "object"})

    async def call(self, arguments: str, ctx: ToolContext) -> ToolResult:
        """Echo."""
        ctx.output(arguments)
        return ToolResult(arguments)
