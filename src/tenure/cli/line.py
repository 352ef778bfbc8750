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
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.history import FileHistory
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.key_binding.key_processor import KeyPressEvent
from prompt_toolkit.utils import get_cwidth

from tenure.lifecycle.scope import Scope
from tenure.transports.base import TransportClosed

Stop = Callable[[], Coroutine[Any, Any, None] | None]
PROMPT = "› "
ABOVE_ROWS = 6
"""Of the terminal, for what is being said; less on a low one."""
LOOK_CHARS = 4096
REDRAW_S = 0.05
"""Between two looks at it."""
HISTORY_BYTES_MAX = 1024 * 1024
"""Of earlier lines; over it the older half goes."""


class Line:
    """The line. `read` is its one task; `next` and `taken` are for whoever attends to it.

    Args:
        history: file of earlier lines, made 0600.
        scope: owns what Ctrl-C starts.
        above: what is being said and not printed yet; its end stands above the line.
    """

    def __init__(self, history: Path, scope: Scope, *, above: Callable[[], str]) -> None:
        history.touch(mode=0o600)
        shorten(history)
        self._scope = scope
        self._above = above
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
        self._prompt.app.min_redraw_interval = REDRAW_S

    def attend(self, completer: Completer, toolbar: Callable[[], str], stop: Stop) -> None:
        """Somebody listens now.

        Args:
            completer: completes what is typed.
            toolbar: the text below the line.
            stop: what Ctrl-C does; None from it clears the line.
        """
        self._completer, self._toolbar, self._stop = completer, toolbar, stop
        self._prompt.app.invalidate()

    def refresh(self) -> None:
        """What stands around the line may have changed."""
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
            return await self._prompt.prompt_async(self._before, default=offered)
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

    def _before(self) -> StyleAndTextTuples:
        """The end of what is being said, and the mark; once a line is sent, the mark alone."""
        app = self._prompt.app
        said = "" if app.is_done else self._above()
        size = app.output.get_size()
        rows = ends(said, size.columns, min(ABOVE_ROWS, size.rows // 3))
        return [("", "".join(f"{row}\n" for row in rows)), ("", PROMPT)]

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


def ends(text: str, columns: int, rows_max: int) -> list[str]:
    """The last rows of a text that is wrapped to a width. Pure."""
    # Of a long one the end is looked at, from a place that seldom moves: its rows stand still.
    text = text[max(0, len(text) // LOOK_CHARS - 1) * LOOK_CHARS :]
    rows: list[str] = []
    for line in text.expandtabs(4).splitlines():
        row, width = "", 0
        for char in line:
            width += get_cwidth(char)
            if width > columns:
                kept, blank, word = row.rpartition(" ") if char != " " else (row, " ", "")
                rows.append(kept if blank else row)
                row = (word if blank else "") + char.strip(" ")
                width = sum(map(get_cwidth, row))
            else:
                row += char
        rows.append(row)
    return rows[-rows_max:] if rows_max > 0 else []


def shorten(history: Path) -> None:
    """Forget the older half of a history that is over its limit; whole entries stay."""
    if history.stat().st_size <= HISTORY_BYTES_MAX:
        return
    from tenure.home import write_private

    kept = history.read_bytes()[-HISTORY_BYTES_MAX // 2 :]
    _, mark, rest = kept.partition(b"\n# ")  # an entry begins with the line of its time
    write_private(history, mark + rest)
