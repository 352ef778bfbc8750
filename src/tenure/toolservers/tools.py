"""Tools of servers, as the model sees them, and the tools to find and read what else they have."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import msgspec

from tenure.conversation import ToolSpec, as_object
from tenure.errors import ToolError
from tenure.tools.base import Effect, ToolContext, ToolResult, TypedTool, schema_of
from tenure.tools.clip import clip
from tenure.toolservers.calls import Asked, Caller
from tenure.toolservers.catalog import Offer

if TYPE_CHECKING:
    from tenure.toolservers.held import Place

FOUND_MAX = 8
LIVE_CHARS_MAX = 64_000
"""What one call shows of its server's news."""
LENT_MAX = 24
"""Tools of a long list that a session has at hand; the one that was found first goes first."""


class ServerTool:
    """One tool of one server.

    Whatever the server says of it, it counts as something that acts: a person is asked, unless a
    rule or the server's ``allow`` says otherwise.

    Args:
        place: where its server is.
        offer: what the server says of it.
        name: what the model calls it.
    """

    effect: ClassVar[Effect] = Effect.EXECUTE

    def __init__(self, place: Place, offer: Offer, name: str) -> None:
        self.name = name
        self.offer = offer
        self.place = place
        about = offer.description or f"{offer.name} of {place.name}."
        self.spec = ToolSpec(name, about, offer.schema)

    async def call(self, arguments: str, ctx: ToolContext) -> ToolResult:
        """Have the server do it. See `Slot.call` for what is told of failures."""
        given = as_object(arguments)
        if given is None:
            raise ToolError(f"The arguments of {self.name} are not a JSON object.")
        slot = await self.place.slot()
        outcome = await slot.call(self.offer.name, given, _caller(ctx, self.place.name))
        text = clip(outcome.text, self.place.output_bytes())
        first = text.strip().splitlines()
        return ToolResult(
            text or "(no output)",
            is_error=outcome.is_error,
            summary=first[0][:120] if first else "done",
        )


def _caller(ctx: ToolContext, server: str) -> Caller:
    left = LIVE_CHARS_MAX

    def tell(line: str) -> None:
        nonlocal left
        if left > 0:
            left -= len(line)
            ctx.output(line if left > 0 else "[… further news of it is not shown …]\n")

    async def ask(asked: Asked) -> str | None:
        return await ctx.person.clarify(f"[{server}] {asked.question}", asked.choices)

    return Caller(tell=tell, ask=ask)


class SearchArgs(msgspec.Struct, frozen=True, omit_defaults=True):
    """Arguments of `tool_search`."""

    query: str
    count: Annotated[int, msgspec.Meta(ge=1, le=FOUND_MAX)] = 5


class ToolSearch(TypedTool[SearchArgs]):
    """Finds tools by words and makes them available.

    Args:
        all_tools: every tool that there is.
        lend: makes some of them available.
        about: of what servers.
    """

    name: ClassVar[str] = "tool_search"
    effect: ClassVar[Effect] = Effect.READ
    description = ""
    args = SearchArgs

    def __init__(
        self,
        all_tools: Callable[[], Sequence[ServerTool]],
        lend: Callable[[Sequence[ServerTool]], None],
        about: str,
    ) -> None:
        self._all = all_tools
        self._lend = lend
        self._about = (
            f"Find further tools by words that say what they should do; those found can be called "
            f"from then on. They are of: {about}."
        )

    @property
    def spec(self) -> ToolSpec:
        """As the model sees it: with the names of the servers."""
        return ToolSpec(self.name, self._about, schema_of(self.args))

    async def run(self, args: SearchArgs, ctx: ToolContext) -> ToolResult:
        """Rank by words, lend the best."""
        del ctx
        found = rank(self._all(), args.query)[: args.count]
        if not found:
            return ToolResult("Nothing fits; try other words.", summary="nothing found")
        self._lend(found)
        lines = [f"{t.name}: {t.spec.description.strip().splitlines()[0][:300]}" for t in found]
        return ToolResult("\n".join(lines), summary=f"{len(found)} tools found")


def rank(tools: Sequence[ServerTool], query: str) -> list[ServerTool]:
    """Those that have words of `query`, best first: a word in the name counts four times."""
    words = set(_words(query))

    def score(tool: ServerTool) -> int:
        in_name = len(words & set(_words(tool.name)))
        return 4 * in_name + len(words & set(_words(tool.spec.description)))

    scored = [(score(tool), -index, tool) for index, tool in enumerate(tools)]
    scored = [entry for entry in scored if entry[0] > 0]
    return [tool for _, _, tool in sorted(scored, key=lambda e: e[:2], reverse=True)]


def _words(text: str) -> list[str]:
    plain = re.sub(r"([a-z])([A-Z])", r"\1 \2", text).lower()
    return [_stem(word) for word in re.findall(r"[a-z0-9]+", plain)]


def _stem(word: str) -> str:
    return word[:-1] if len(word) > 3 and word.endswith("s") else word


class ReadArgs(msgspec.Struct, frozen=True, omit_defaults=True):
    """Arguments of `mcp_read`."""

    action: Literal["resources", "resource", "prompts", "prompt"]
    server: str
    uri: str = ""
    name: str = ""
    arguments: dict[str, str] = {}


class ServerRead(TypedTool[ReadArgs]):
    """What servers have beside tools.

    Args:
        places: the servers that have any.
    """

    name: ClassVar[str] = "mcp_read"
    effect: ClassVar[Effect] = Effect.NETWORK
    description = ""
    args = ReadArgs

    def __init__(self, places: Sequence[Place]) -> None:
        self._places = {place.name: place for place in places}
        self._about = (
            "Resources and prompts of tool servers: list them (resources, prompts), read one "
            f"(resource: uri; prompt: name, arguments). Servers: {', '.join(self._places)}."
        )

    @property
    def spec(self) -> ToolSpec:
        """As the model sees it: with the names of the servers."""
        return ToolSpec(self.name, self._about, schema_of(self.args))

    async def run(self, args: ReadArgs, ctx: ToolContext) -> ToolResult:
        """Ask the server."""
        place = self._places.get(args.server)
        if place is None:
            raise ToolError(f"There is no server {args.server[:60]!r} with resources or prompts.")
        text = await self._read(args, await place.slot())
        return ToolResult(clip(text, place.output_bytes()) or "(nothing)", summary=args.action)

    async def _read(self, args: ReadArgs, slot: Any) -> str:
        if args.action == "resources":
            return "\n".join(await slot.ask(lambda link: link.resources()))
        if args.action == "prompts":
            return "\n".join(await slot.ask(lambda link: link.prompts()))
        if args.action == "resource":
            if not args.uri:
                raise ToolError("resource needs a uri.")
            return str(await slot.ask(lambda link: link.resource(args.uri)))
        if not args.name:
            raise ToolError("prompt needs a name.")
        return str(await slot.ask(lambda link: link.prompt(args.name, args.arguments)))
