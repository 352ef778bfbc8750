"""The prompt line of the chat: there from the first moment, whoever listens to it.

It reads one line at a time and waits until that one is taken. A gateway that opens, or goes away
and is replaced, changes only who attends to it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import Completer, DummyCompleter, DynamicCompleter
from prompt_toolkit.filters import Condition
from prompt_toolkit.history import FileHistory
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.key_binding.key_processor import KeyPressEvent

from tenure.lifecycle.scope import Scope
from tenure.transports.base import TransportClosed

Stop = Callable[[], Coroutine[Any, Any, None] | None]
HISTORY_BYTES_MAX = 1024 * 1024
"""Of earlier lines; over it the older half goes."""


class Line:
    """The line. `read` is its one task; `next` and `taken` are for whoever attends to it.

    Args:
        history: file of earlier lines, made 0600.
        scope: owns what Ctrl-C starts.
    """

    def __init__(self, history: Path, scope: Scope) -> None:
        history.touch(mode=0o600)
        shorten(history)
        self._scope = scope
        self._hidden = False
        self._completer: Completer = DummyCompleter()
        self._toolbar: Callable[[], str] = _opening
        self._stop: Stop = _nothing
        self._offered = ""
        self.gone = False
        """The terminal has hung up: nobody reads or types."""
        self._lines: asyncio.Queue[str | None] = asyncio.Queue()
        self._prompt: PromptSession[str] = PromptSession(
            history=_History(str(history), lambda: self._hidden),
            is_password=Condition(lambda: self._hidden),
            completer=DynamicCompleter(lambda: self._completer),
            complete_while_typing=False,
            key_bindings=self._keys(),
            multiline=False,
            bottom_toolbar=self._below,
            refresh_interval=0,
            enable_open_in_editor=True,
            enable_suspend=True,
        )

    def attend(self, completer: Completer, toolbar: Callable[[], str], stop: Stop) -> None:
        """Somebody listens now.

        Args:
            completer: completes what is typed.
            toolbar: the text below the line.
            stop: what Ctrl-C does; None from it clears the line.
        """
        self._completer, self._toolbar, self._stop = completer, toolbar, stop
        self._prompt.app.invalidate()

    def hide(self, hidden: bool) -> None:
        """Whether what is typed is neither shown nor remembered: a secret."""
        self._hidden = hidden
        self._prompt.app.invalidate()

    def offer(self, text: str) -> None:
        """Let the next line begin with `text`, to be changed; Ctrl-X Ctrl-E opens the editor."""
        self._offered = text

    def unattended(self) -> None:
        """Nobody listens: lines wait."""
        self._completer, self._toolbar, self._stop = DummyCompleter(), _opening, _nothing

    async def read(self) -> None:
        """Read line after line; the end of input is a None, and whoever takes that may stay."""
        while True:
            await self._lines.put(await self._type())
            await self._lines.join()

    async def _type(self) -> str | None:
        """What is typed. Ctrl-D is an answer, not an error: a task that fails is logged."""
        offered, self._offered = self._offered, ""
        try:
            return await self._prompt.prompt_async("› ", default=offered)
        except OSError:
            self.gone = True
            return None
        except (EOFError, KeyboardInterrupt):
            return None

    async def next(self, listening: asyncio.Task[None]) -> str | None:
        """The next line, or None at the end of input. Cancelling it loses none.

        Args:
            listening: ends when the gateway goes.

        Raises:
            TransportClosed: it has.
        """
        scope = Scope.root("line", self._scope.clock)
        waiting = scope.spawn(self._lines.get(), name="next line").value
        try:
            await asyncio.wait({waiting, listening}, return_when=asyncio.FIRST_COMPLETED)
            if not waiting.done():
                raise TransportClosed
            return waiting.result()
        finally:
            await scope.close("taken")

    def taken(self) -> None:
        """The line that `next` gave has been dealt with; the next one may be typed."""
        self._lines.task_done()

    def _below(self) -> str:
        return self._toolbar()

    def _keys(self) -> KeyBindings:
        keys = KeyBindings()

        @keys.add("c-c")
        def _interrupt(event: KeyPressEvent) -> None:
            work = self._stop()
            if work is None:
                event.current_buffer.reset()
            else:
                self._scope.spawn(work, name="interrupt")

        @keys.add("escape", "enter")
        def _newline(event: KeyPressEvent) -> None:
            event.current_buffer.insert_text("\n")

        return keys


class _History(FileHistory):
    """Earlier lines, without those that nobody may see."""

    def __init__(self, filename: str, hidden: Callable[[], bool]) -> None:
        super().__init__(filename)
        self._hidden = hidden

    def append_string(self, string: str) -> None:
        """Remember a line, unless it is hidden."""
        if not self._hidden():
            super().append_string(string)


def _opening() -> str:
    return " opening … · Ctrl-D leaves "


def _nothing() -> None:
    return None


def shorten(history: Path) -> None:
    """Forget the older half of a history that is over its limit; whole entries stay."""
    if history.stat().st_size <= HISTORY_BYTES_MAX:
        return
    from tenure.home import write_private

    kept = history.read_bytes()[-HISTORY_BYTES_MAX // 2 :]
    _, mark, rest = kept.partition(b"\n# ")  # an entry begins with the line of its time
    write_private(history, mark + rest)
