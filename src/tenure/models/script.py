"""The script of the scripted model: its format, and how far each session has come.

``--model scripted:FILE`` reads a JSON or TOML file (by its suffix)::

    {
      "name": "demo",
      "steps": [
        [{"reasoning": "A file is wanted."},
         {"text": "I will write it. "},
         {"call": {"name": "write", "arguments": {"path": "a.txt", "content": "hi"}}}],
        {"text": "Done: a.txt holds a greeting."}
      ],
      "on": [{"match": "title", "step": {"text": "A greeting"}}],
      "loop": false
    }

One **step** answers one model call. Each session (`ModelRequest.session_id`) gets the steps in
order from the first; after the last one the script starts again with ``loop``, else the answer is
"The script has ended.". A step is a list of **actions** (or a single one) that run in order:

=============================  ==================================================================
``{"text": "…"}``              answer text, streamed word by word
``{"deltas": ["…", "…"]}``     answer text in exactly these pieces
``{"reasoning": "…"}``         thinking
``{"call": {…}}``              a tool call: ``name``, ``arguments`` (an object, or a text that is
                               passed on as it is, valid or not), ``id`` (else ``call_N``)
``{"progress": "…"}``          a `Progress` event
``{"delay_s": 0.5}``           wait so many seconds
``{"pace_s": 0.02}``           from here on wait so long before each piece of text
``{"gate": "name"}``           wait until the gate is open. From a file: ``FILE.name.reached`` is
                               made on arrival and the wait ends when ``FILE.name.open`` exists
``{"error": {…}}``             fail: ``status`` (as HTTP) or ``kind`` (``unauthorized``,
                               ``overloaded``, ``garbage``, ``error``), ``message``,
                               ``retry_after_s``
``{"usage": {…}}``             ``input``, ``output``, ``cached`` tokens (else counted in words)
``{"finish": "length"}``       the reason of the end (else ``tool_calls`` or ``stop``)
=============================  ==================================================================

``images`` and ``pdfs`` beside ``steps`` say what the model takes besides text (images, unless told
so).

``on`` answers a call out of order whenever its last message or its system text contains ``match``
(for titles and summaries); it does not move the session's place in the script.

Tests build a `Script` from the same values, open its gates (`Script.gate`) and read the requests
that came (`Script.requests`).
"""

from __future__ import annotations

import asyncio
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from tenure.clock import Clock
from tenure.conversation import Usage
from tenure.errors import ConfigError
from tenure.models.base import ModelRequest, Sight

SEEING = Sight(images=True)
SESSIONS_MAX = 20_000
"""Places in the script that are remembered; the oldest session starts again beyond that."""
REQUESTS_MAX = 1_000
"""Requests that are remembered, the latest."""
GATE_POLL_S = 0.02


class CallAction(msgspec.Struct, frozen=True):
    """A tool call that the script makes."""

    name: str
    arguments: dict[str, Any] | str = {}
    id: str = ""


class ErrorAction(msgspec.Struct, frozen=True):
    """A failure that the script makes."""

    status: int = 0
    kind: Literal["unauthorized", "overloaded", "garbage", "error"] = "error"
    message: str = ""
    retry_after_s: float | None = None


class Action(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One thing that a step does; see the table above."""

    text: str = ""
    deltas: tuple[str, ...] = ()
    reasoning: str = ""
    call: CallAction | None = None
    progress: str = ""
    delay_s: float = 0.0
    pace_s: float | None = None
    gate: str = ""
    error: ErrorAction | None = None
    usage: Usage | None = None
    finish: Literal["stop", "tool_calls", "length", "content_filter"] | None = None


Step = Action | tuple[Action, ...]


class Aside(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An answer that is chosen by what is asked, outside the order."""

    match: str
    step: Step


class ScriptFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The whole file."""

    steps: tuple[Step, ...]
    on: tuple[Aside, ...] = ()
    loop: bool = False
    name: str = ""
    context_tokens: int = 128_000
    small: bool = False
    images: bool | None = True
    pdfs: bool = False


class ScriptGate:
    """A named point at which the script waits. Belongs to one `Script`."""

    __slots__ = ("_open", "_reached", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self._open = asyncio.Event()
        self._reached = asyncio.Event()

    def open(self) -> None:
        """Let everyone through, now and later."""
        self._open.set()

    def shut(self) -> None:
        """Stop the next one again."""
        self._open.clear()
        self._reached.clear()

    async def wait_reached(self) -> None:
        """Until a stream stands at (or has passed) the gate."""
        await self._reached.wait()

    async def pass_through(self) -> None:
        """For the stream: announce the arrival, wait for the opening."""
        self._reached.set()
        await self._open.wait()


class Script:
    """What to answer, how far each session has come, and what was asked.

    Args:
        steps: the steps, as in a file (dicts and lists) or as `Action` values.
        on: answers by content, as in a file.
        loop: start again after the last step.
        context_tokens, small: what the model says of itself.
        file: where the script came from; its gates are files then.

    Raises:
        ConfigError: a step does not have the form of the table above.
    """

    def __init__(
        self,
        steps: Sequence[Any],
        *,
        on: Sequence[Any] = (),
        loop: bool = False,
        context_tokens: int = 128_000,
        small: bool = False,
        file: Path | None = None,
    ) -> None:
        whole = _whole({"steps": steps, "on": on}, file or "given in Python")
        self._steps = whole.steps
        self._asides = whole.on
        self._loop = loop
        self._file = file
        self._gates: dict[str, ScriptGate] = {}
        self._places: dict[str, int] = {}
        self.context_tokens = context_tokens
        self.small = small
        self.sight = SEEING
        """What the model says that it takes besides text."""
        self.requests: list[ModelRequest] = []
        """Those that came, the latest; none for a file's script, whose requests nobody reads."""
        self.asked = 0
        """How many requests came."""
        self.open_streams = 0

    @classmethod
    def load(cls, path: Path) -> Script:
        """Read a script file.

        Raises:
            ConfigError: it is missing, unreadable or of the wrong form.
        """
        try:
            raw = path.read_bytes()
            toml = path.suffix == ".toml"
            tree = tomllib.loads(raw.decode()) if toml else msgspec.json.decode(raw)
        except OSError as exc:
            raise ConfigError(
                f"The model script {path} cannot be read: {exc.strerror or exc}."
            ) from None
        except ValueError as exc:  # TOML, JSON and UTF-8 errors are all ValueErrors
            raise ConfigError(f"The model script {path} is not valid: {exc}.") from None
        if isinstance(tree, list):
            tree = {"steps": tree}
        whole = _whole(tree, path)
        script = cls(
            whole.steps,
            on=whole.on,
            loop=whole.loop,
            context_tokens=whole.context_tokens,
            small=whole.small,
            file=path,
        )
        script.sight = Sight(whole.images, pdfs=whole.pdfs)
        return script

    def gate(self, name: str) -> ScriptGate:
        """The gate of that name (made when first asked for)."""
        return self._gates.setdefault(name, ScriptGate(name))

    def take(self, request: ModelRequest) -> tuple[Action, ...]:
        """The step that answers `request`; moves the session's place."""
        self.asked += 1
        if self._file is None:
            self.requests.append(request)
            del self.requests[:-REQUESTS_MAX]
        last = request.messages[-1].text if request.messages else ""
        for aside in self._asides:
            if aside.match in last or aside.match in request.system:
                return _as_tuple(aside.step)
        place = self._places.pop(request.session_id, 0)
        self._places[request.session_id] = place + 1  # re-inserted: the newest is the last
        if len(self._places) > SESSIONS_MAX:
            del self._places[next(iter(self._places))]
        if self._loop and self._steps:
            place %= len(self._steps)
        if place >= len(self._steps):
            return (Action(text="The script has ended."),)
        return _as_tuple(self._steps[place])

    async def wait_gate(self, name: str, clock: Clock) -> None:
        """Wait at the gate `name`: an event in tests, a pair of files for a file's script."""
        if self._file is None or name in self._gates:
            await self.gate(name).pass_through()
            return
        reached = self._file.with_name(f"{self._file.name}.{name}.reached")
        opened = self._file.with_name(f"{self._file.name}.{name}.open")
        reached.touch()
        while not opened.exists():
            await clock.sleep(GATE_POLL_S)


def _as_tuple(step: Step) -> tuple[Action, ...]:
    return step if isinstance(step, tuple) else (step,)


def _whole(tree: object, where: object) -> ScriptFile:
    """Check a script.

    Raises:
        ConfigError: naming the place inside and what was expected.
    """
    try:
        return msgspec.convert(msgspec.to_builtins(tree), ScriptFile)
    except msgspec.ValidationError as exc:
        raise ConfigError(f"The model script {where} is wrong: {exc}.") from None
