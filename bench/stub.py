"""An OpenAI-compatible model server that answers at once: run as a process, prints its port.

A request whose last message is a number gets that many chunks, others get twenty. Small writes are
not delayed (asyncio sets TCP_NODELAY); a stub without that adds 40 ms to every answer.
"""

from __future__ import annotations

import asyncio
import json
import sys

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
MODELS = json.dumps({"object": "list", "data": [{"id": "stub", "object": "model"}]}).encode()
PAUSE_EVERY = 50


def event(body: dict) -> bytes:
    data = b"data: " + json.dumps(body).encode() + b"\n\n"
    return b"%x\r\n%s\r\n" % (len(data), data)


def chunk(delta: dict, reason: str | None = None, **more: object) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": reason}
    head = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "stub"}
    return event({**head, "choices": [choice], **more})


WORD = chunk({"content": "word "})


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            length = next(
                (h for h in head.split(b"\r\n") if h.startswith(b"content-length")), b":0"
            )
            body = await reader.readexactly(int(length.partition(b":")[2]))
            if head.startswith(b"get"):
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n")
                writer.write(b"content-length: %d\r\n\r\n%s" % (len(MODELS), MODELS))
                continue
            if b"/chat/completions" not in head:
                writer.write(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n")
                continue
            last = json.loads(body)["messages"][-1]["content"]
            text = last if isinstance(last, str) else last[-1].get("text", "")
            count = int(text) if text.isdigit() else 20
            usage = {"prompt_tokens": 5, "completion_tokens": count, "total_tokens": count + 5}
            writer.write(HEAD)
            for n in range(count):
                writer.write(WORD)
                if n % PAUSE_EVERY == PAUSE_EVERY - 1:
                    await writer.drain()
                    await asyncio.sleep(0.001)
            writer.write(chunk({}, "stop", usage=usage))
            done = b"data: [DONE]\n\n"
            writer.write(b"%x\r\n%s\r\n0\r\n\r\n" % (len(done), done))
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    finally:
        writer.close()


async def main() -> None:
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await server.serve_forever()


asyncio.run(main())
