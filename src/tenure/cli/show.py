"""Events as text in a terminal: Markdown as it streams, block by block, tools as single lines.

A block (paragraph, list, fenced code) is rendered when it is complete, so nothing that has been
printed is ever drawn again: the output survives resizing, scrolling and pipes. What has come of the
next block is for the prompt line to show meanwhile (`Show.unfinished`).
"""

from __future__ import annotations

from typing import Any

from rich.console import Console, RenderableType
from rich.markup import escape

from tenure.cli.calls import Calls, change_of, note_of, sub_agent
from tenure.protocol.messages import EventParams

PAST_CHARS = 120
"""Of a tool's output, when an earlier conversation is shown."""


def _markdown(text: str) -> RenderableType:
    """`text` rendered. Imported at the first block: a chat takes input 80 ms sooner."""
    from rich.markdown import Markdown

    return Markdown(text)


def let_pass(source: str) -> str:
    """That nothing is asked in a session, and on whose word."""
    return f"nothing is asked here: approvals are let pass ({word_of(source)})"


def word_of(source: str) -> str:
    """What let pass what would be asked, as a person has said it."""
    return "--yes" if source in {"session.create", "session.resume"} else source


PLANNING = "plan mode: nothing is changed until you approve a plan (/plan off ends it)"


class Blocks:
    """Splits streamed Markdown into complete blocks. Pure."""

    def __init__(self) -> None:
        self._text = ""

    def feed(self, text: str) -> list[str]:
        """Add text; the blocks that are complete now."""
        self._text += text
        done: list[str] = []
        while (cut := self._cut()) is not None:
            block, self._text = self._text[:cut], self._text[cut:]
            if block.strip():
                done.append(block)
        return done

    @property
    def unfinished(self) -> str:
        """What has come of the block that is not complete."""
        return self._text

    def rest(self) -> str:
        """What is left at the end."""
        rest, self._text = self._text, ""
        return rest

    def _cut(self) -> int | None:
        """Where the first complete block ends: at a blank line outside a fence."""
        fenced, at = False, 0
        for line in self._text.splitlines(keepends=True):
            if line.lstrip().startswith("```"):
                fenced = not fenced
            at += len(line)
            if not fenced and line.strip() == "" and line.endswith("\n"):
                return at
        return None


class Show:
    """Shows one session's events on a console."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._blocks = Blocks()
        self._calls = Calls()
        self._said = ""
        """What has been shown of the message that streams."""
        self._interim = ""
        self._planning = False

    @property
    def unfinished(self) -> str:
        """What has been said of a block that is not complete, and so not printed."""
        return self._blocks.unfinished

    def opened(self, info: dict[str, Any], where: str) -> None:
        """What the session is: model and why, directory, which gateway."""
        reason = f" ({escape(info['model_reason'])})" if info["model_reason"] else ""
        self._console.print(
            f"[dim]{escape(info['model'] or 'no model')}{reason} · "
            f"{escape(info['cwd'])} · {where}[/]"
        )
        if about := info.get("sandbox", {}).get("about"):
            self._console.print(f"[dim]commands run {escape(about)}[/]")
        if info["approval_source"]:
            self._console.print(f"[yellow]{let_pass(info['approval_source'])}[/]")
        self._planning = info.get("plan", {}).get("on", False)
        if self._planning:
            self._console.print(f"[yellow]{PLANNING}[/]")
        if info.get("notice"):
            self._console.print(f"[yellow]{escape(info['notice'])}[/]")
        for path in info["instructions"]:
            self._console.print(f"[dim]reads {escape(path)}[/]")
        if "credential_warning" in info:
            self._console.print(f"[red]{escape(info['credential_warning'])}[/]")

    def past(self, message: dict[str, Any]) -> None:
        """One entry of an earlier conversation."""
        if message["role"] == "user":
            files = message.get("files", ())
            self.prompt(message["text"], ", ".join(file["about"] for file in files))
        elif message["role"] == "tool":
            first, _, more = message["text"].strip().partition("\n")
            self._console.print(f"  [dim]{escape(first[:PAST_CHARS])}{' …' if more else ''}[/]")
        elif message["role"] == "assistant":
            if message["text"]:
                self._console.print(_markdown(message["text"]))
            for call in message.get("tool_calls", ()):
                context = escape(call.get("context", ""))
                self._console.print(f"[cyan]• {escape(call['name'])}[/] {context}")

    def prompt(self, text: str, whose: str = "") -> None:
        """A prompt that was not typed just above: it waited, or comes from elsewhere."""
        self._flush()
        note = f"  [dim]· {whose}[/]" if whose else ""
        self._console.print(f"[bold]› {escape(text)}[/]{note}")

    def note(self, text: str) -> None:
        """What has happened, in one dim line."""
        self._console.print(f"[dim]{escape(text)}[/]")

    def plain(self, text: str) -> None:
        """Text as it is."""
        self._console.print(text, markup=False)

    def refused(self, why: object) -> None:
        """That something typed was not done, and why."""
        self._console.print(f"[red]{escape(str(why))}[/]")

    def running(self, inflight: dict[str, Any]) -> None:
        """The turn that a window has come into the middle of, with what it has said so far."""
        if inflight["user"]:
            self.prompt(inflight["user"])
        so_far = "so far it said:" if inflight["assistant"] else "it has not said anything yet"
        self.note(f"a turn is running since before this window came; {so_far}")
        self.catch_up(inflight["assistant"])

    def catch_up(self, text: str) -> None:
        """What of a message has not been shown: it was said while nobody listened here."""
        if text.startswith(self._said):
            self._feed(text[len(self._said) :])

    def _feed(self, text: str) -> None:
        self._said += text
        for block in self._blocks.feed(text):
            self._console.print(_markdown(block))

    def event(self, event: EventParams) -> None:
        """Show one event."""
        payload = event.payload or {}
        match event.type:
            case "message.delta":
                self._feed(payload["text"])
            case "message.start":
                self._said = self._interim = ""
                self._calls.clear()
            case "message.interim":
                self._end(payload["text"])
                self._interim = payload["text"]
            case "tool.start":
                self._flush()
                self._calls.began(payload)
                name, context = escape(payload["name"]), escape(payload["context"])
                self._console.print(f"[cyan]• {name}[/] {context}")
                for line in change_of(payload):
                    colour = {"-": "red", "+": "green"}.get(line[0], "dim")
                    self._console.print(f"    {line}", style=colour, markup=False)
            case "tool.complete":
                mark = "[red]✗[/]" if payload["is_error"] else "[green]✓[/]"
                told = escape(self._calls.result(payload))
                self._console.print(f"  {mark} [dim]{told}[/]")
            case "status.update" | "notification.show" | "session.notice":
                self._console.print(f"[dim]… {escape(payload['text'])}[/]")
            case "approval.mode":
                again = "from now on it is asked again"
                self.note(let_pass(payload["source"]) if payload["source"] else again)
            case "message.complete":
                self._complete(payload)
            case _:
                self._aside(event.type, payload)

    def _aside(self, kind: str, payload: dict[str, Any]) -> None:
        """What is no part of the turn's own answer."""
        match kind:
            case "error":
                self._console.print(f"[red]{escape(payload['message'])}[/]")
            case "memory.changed":
                self._flush()
                self.note(note_of(payload, "/memory"))
            case "plan.changed":
                self._planned(payload)
            case "todo.changed":
                self._todo(payload["items"])
            case _ if line := sub_agent(kind, payload):
                self._flush()
                self._console.print(f"[dim]{escape(line)}[/]")
            case _:
                return

    def _planned(self, plan: dict[str, Any]) -> None:
        """Whether plan mode is on; the plan itself is shown with its question."""
        if plan["on"] != self._planning:
            self._planning = plan["on"]
            over = "the plan is approved" if plan["approved_at"] else "plan mode is off"
            self.note(PLANNING if plan["on"] else f"{over}; changes are possible again")

    def _todo(self, items: list[dict[str, str]]) -> None:
        """The agent's list of steps."""
        self._flush()
        for item in items:
            mark = {"completed": "☑", "in_progress": "▶", "cancelled": "☒"}.get(item["status"], "☐")
            self._console.print(f"  [dim]{mark} {escape(item['content'])}[/]")

    def _complete(self, payload: dict[str, Any]) -> None:
        self._end(
            "" if payload["text"] in {self._interim, payload.get("error")} else payload["text"]
        )
        if payload.get("error"):
            self._console.print(f"[red]{escape(payload['error'])}[/]")
        elif payload["state"] == "interrupted":
            self._console.print(f"[dim]interrupted ({payload['cause']})[/]")

    def _end(self, text: str) -> None:
        """A message is whole: show what of it is not on the screen."""
        self.catch_up(text)
        self._flush()
        self._said = ""

    def _flush(self) -> None:
        if rest := self._blocks.rest():
            self._console.print(_markdown(rest))
