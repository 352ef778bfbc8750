"""A client of the real server that keeps everything it hears: for load, and for oracles."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections import defaultdict
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake

PATIENCE_S = 20.0


class Refused(Exception):  # noqa: N818 - as one says it
    """The gateway answered with an error."""

    def __init__(self, method: str, error: dict[str, Any]) -> None:
        super().__init__(f"{method}: {error}")
        self.code: int = error["code"]
        self.error = error


class Lost(Exception):  # noqa: N818 - as one says it
    """The connection has ended."""


class Wire:
    """One connection, with the events that came, by session."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self._ids = itertools.count(1)
        self._answers: dict[str, asyncio.Future[Any]] = {}
        self._came = asyncio.Event()
        self.events: dict[str, list[dict[str, Any]]] = defaultdict(list)
        self.lost = False
        self._reader = asyncio.create_task(self._read())

    @classmethod
    async def open(cls, url: str, token: str) -> Wire:
        """Connect.

        Raises:
            Lost: nobody is there, or he has gone meanwhile.
        """
        try:
            socket = await connect(
                url, additional_headers={"Authorization": f"Bearer {token}"}, max_size=None,
                compression=None, proxy=None, open_timeout=PATIENCE_S, ping_interval=None,
            )  # fmt: skip
        except (InvalidHandshake, OSError) as exc:
            raise Lost(str(exc)) from None
        return cls(socket)

    async def _read(self) -> None:
        try:
            async for frame in self._socket:
                message = json.loads(frame)
                answer = self._answers.pop(str(message.get("id")), None)
                if answer is not None and not answer.done():
                    answer.set_result(message)
                elif "params" in message:
                    event = message["params"]
                    self.events[event.get("session_id") or ""].append(event)
                    self._wake()
        except ConnectionClosed:
            pass
        finally:
            self.lost = True
            for answer in self._answers.values():
                if not answer.done():
                    answer.set_exception(Lost("the connection ended before the answer"))
                    answer.exception()  # whoever waits is told; nobody need
            self._wake()

    def _wake(self) -> None:
        self._came.set()
        self._came = asyncio.Event()

    async def call(self, method: str, **params: Any) -> Any:
        """Ask by name; see `call_with`."""
        return await self.call_with(method, params)

    async def call_with(self, method: str, params: Any) -> Any:
        """Ask, and wait for the answer.

        Raises:
            Refused: the answer is an error.
            Lost: the connection has ended.
        """
        an_id = f"p{next(self._ids)}"
        answer = self._answers[an_id] = asyncio.get_running_loop().create_future()
        if self.lost:
            del self._answers[an_id]
            raise Lost(method)
        try:
            await self.send({"jsonrpc": "2.0", "id": an_id, "method": method, "params": params})
            async with asyncio.timeout(PATIENCE_S):
                message = await answer
        finally:
            self._answers.pop(an_id, None)
        if "error" in message:
            raise Refused(method, message["error"])
        return message["result"]

    async def send(self, message: Any) -> None:
        """Send one message, whatever it is.

        Raises:
            Lost: the connection has ended.
        """
        try:
            await self._socket.send(
                message if isinstance(message, (str, bytes)) else json.dumps(message)
            )
        except ConnectionClosed:
            raise Lost("the connection has ended") from None

    async def until(self, kind: str, session: str, count: int = 1) -> list[dict[str, Any]]:
        """Wait for so many events of a kind of a session, those that have come included."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                came = self._came
                found = [e for e in self.events[session] if e["type"] == kind]
                if len(found) >= count:
                    return found
                if self.lost:
                    raise Lost(kind)
                await came.wait()

    async def next(self) -> None:
        """Wait until anything comes, or the end."""
        came = self._came
        if not self.lost:
            await came.wait()

    def pause(self) -> None:
        """Read nothing from now on: the kernel's buffers fill, then the gateway's."""
        self._socket.transport.pause_reading()

    def resume(self) -> None:
        """Read again."""
        if not self.lost:
            self._socket.transport.resume_reading()

    async def create(self, **params: Any) -> str:
        """A session; its id."""
        opened = await self.call("session.create", **params)
        return str(opened["session_id"])

    def abort(self) -> None:
        """Vanish, without a word."""
        self._socket.transport.abort()

    async def close(self) -> None:
        """Close in order."""
        await self._socket.close()
        await asyncio.wait({self._reader})
