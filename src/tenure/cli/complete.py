"""Completion in the chat, asked over the wire: commands after "/", paths otherwise."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from tenure.client import Client
from tenure.errors import TenureError


class WireCompleter(Completer):
    """Asks the gateway what could follow."""

    def __init__(self, client: Client, session: Callable[[], str]) -> None:
        self._client = client
        self._session = session

    def get_completions(
        self, document: Document, complete_event: CompleteEvent
    ) -> Iterable[Completion]:
        """None: everything is asked asynchronously."""
        del document, complete_event
        return ()

    async def get_completions_async(
        self, document: Document, complete_event: CompleteEvent
    ) -> AsyncGenerator[Completion, None]:
        """What could follow the text before the cursor."""
        del complete_event
        text = document.text_before_cursor
        try:
            word, items = await self._of_command(text) if text.startswith("/") else ("", [])
            if not items:
                word = text.rpartition(" ")[2]
                found = await self._client.call(
                    "complete.path", session_id=self._session(), word=word
                )
                items = found["items"]
        except TenureError:
            return
        for item in items:
            yield Completion(
                item["text"], -len(word), display=item["display"], display_meta=item["meta"]
            )

    async def _of_command(self, text: str) -> tuple[str, list[dict[str, str]]]:
        """The part of a command that is typed, and what it could become."""
        found = await self._client.call("complete.slash", session_id=self._session(), text=text)
        return text[found.get("replace_from", 0) :], found["items"]
