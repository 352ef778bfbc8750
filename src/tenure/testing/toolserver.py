"""A tool server to test with: a child that speaks the protocol by hand, and misbehaves.

    python -m tenure.testing.toolserver [--LEG=VALUE …]

Its state is a folder (``--dir``): ``starts`` has a line for each start, ``effects`` one for each
``add`` that went through, ``calls`` one for each call that came in, ``said`` what it was answered.
It imports nothing of ours, so that it starts at once.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

VERSION = "2025-06-18"
_STRING = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
_NOTHING: dict[str, Any] = {"type": "object", "properties": {}}
TOOLS: dict[str, dict[str, Any]] = {
    "echo": _STRING,
    "add": _STRING,
    "slow": _STRING,
    "progress": _NOTHING,
    "die": _NOTHING,
    "die_after": _STRING,
    "hang": _NOTHING,
    "garbage": _NOTHING,
    "huge": _NOTHING,
    "flood": _NOTHING,
    "ask": _NOTHING,
    "ask_url": _NOTHING,
    "roots": _NOTHING,
    "sample": _NOTHING,
    "grow": _NOTHING,
    "env": _STRING,
    "fail": _NOTHING,
    "refuse": _NOTHING,
    "pid": _NOTHING,
    "close_stdout": _NOTHING,
}


class Server:
    """One start.

    Args:
        legs: ``mute`` (answers no handshake), ``garbage`` (speaks something else), ``deaf``
            (ignores TERM, INT and the end of its input), ``die`` (exits at once), ``tools=N`` (N
            further tools), ``wordy`` (long schemas).
        folder: its state.
    """

    def __init__(self, legs: dict[str, str], folder: Path) -> None:
        self.legs = legs
        self.folder = folder
        self.grown = 0
        self.asked: dict[int, Any] = {}
        self.next_id = 1

    def note(self, name: str, line: str) -> None:
        """A line of state."""
        with (self.folder / name).open("a") as file:
            file.write(f"{line}\n")

    def send(self, **message: Any) -> None:
        """A message to the client."""
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()

    def tools(self) -> list[dict[str, Any]]:
        """What is offered now."""
        more = {f"extra_{n}": _NOTHING for n in range(int(self.legs.get("tools", "0")))}
        more |= {f"grown_{n}": _NOTHING for n in range(self.grown)}
        about = "long " * 400 if "wordy" in self.legs else ""
        return [
            {"name": name, "description": f"Does {name}. {about}".strip(), "inputSchema": schema}
            for name, schema in {**TOOLS, **more}.items()
        ]

    def run(self) -> None:
        """Until the input ends."""
        self.note("starts", str(os.getpid()))
        if "deaf" in self.legs:
            for signum in (signal.SIGTERM, signal.SIGINT):
                signal.signal(signum, signal.SIG_IGN)
        if "die" in self.legs:
            sys.stderr.write("no reason to live\n")
            raise SystemExit(3)
        if "garbage" in self.legs:
            for number in range(100_000):
                sys.stdout.write(f"Welcome to server, line {number}\n")
        for line in sys.stdin:
            self.take(json.loads(line))
        if "deaf" in self.legs:
            while True:
                time.sleep(60)

    def take(self, message: dict[str, Any]) -> None:
        """One message of the client."""
        method, params = message.get("method"), message.get("params") or {}
        number = message.get("id")
        if method is None:
            self.note("said", json.dumps(message.get("result", message.get("error"))))
            if number in self.asked:
                asker = self.asked.pop(number)
                self.text(asker, json.dumps(message.get("result") or message.get("error")))
        elif method == "initialize":
            self.note("clients", json.dumps(params.get("capabilities")))
            if "mute" not in self.legs:
                can = {"tools": {"listChanged": True}, "resources": {}, "prompts": {}}
                info = {"name": "fake", "version": "1"}
                self.answer(number, protocolVersion=VERSION, capabilities=can, serverInfo=info)
        elif method == "tools/list":
            self.note("lists", "1")
            self.answer(number, tools=self.tools())
        elif method == "tools/call":
            self.note("calls", params["name"])
            self.call(number, params["name"], params.get("arguments") or {}, params.get("_meta"))
        elif method == "notifications/cancelled":
            self.note("cancelled", json.dumps(params))
        elif number is not None:
            self.other(number, method, params)

    def other(self, number: Any, method: str, params: dict[str, Any]) -> None:
        """Resources and prompts."""
        if method == "resources/list":
            self.answer(number, resources=[{"uri": "fake://one", "name": "one"}])
        elif method == "resources/templates/list":
            self.answer(number, resourceTemplates=[])
        elif method == "resources/read":
            self.answer(number, contents=[{"uri": params["uri"], "text": "what is in it"}])
        elif method == "prompts/list":
            arguments = [{"name": "who", "required": True}]
            self.answer(number, prompts=[{"name": "greet", "arguments": arguments}])
        elif method == "prompts/get":
            content = {"type": "text", "text": f"Greet {params['arguments']['who']}."}
            self.answer(number, messages=[{"role": "user", "content": content}])
        elif method == "ping":
            self.answer(number)
        else:
            self.send(id=number, error={"code": -32601, "message": f"no {method}"})

    def answer(self, number: Any, **result: Any) -> None:
        """A result."""
        self.send(id=number, result=result)

    def text(self, number: Any, text: str, *, error: bool = False) -> None:
        """The result of a call."""
        self.answer(number, content=[{"type": "text", "text": text}], isError=error)

    def call(self, number: Any, name: str, args: dict[str, Any], meta: Any) -> None:
        """A tool."""
        if name in {"echo", "fail"} or name.startswith(("extra", "grown")):
            self.text(number, args.get("text", name), error=name == "fail")
        elif name == "add":
            self.note("effects", args["text"])
            self.text(number, "added")
        elif name == "env":
            self.text(number, os.environ.get(args["text"], "(unset)"))
        elif name == "pid":
            self.text(number, str(os.getpid()))
        elif name == "progress":
            token = meta["progressToken"]
            for done in (1, 2):
                told = {"progressToken": token, "progress": done, "total": 2, "message": "step"}
                self.send(method="notifications/progress", params=told)
            self.text(number, "done")
        elif name in {"slow", "hang"}:
            return
        elif name == "grow":
            self.grown += 1
            self.send(method="notifications/tools/list_changed")
            self.text(number, "grown")
        else:
            self.misbehave(number, name, args)

    def misbehave(self, number: Any, name: str, args: dict[str, Any]) -> None:
        """What no server should do, and what asks something back."""
        if name == "die":
            os._exit(9)
        elif name == "die_after":
            self.note("effects", args["text"])
            os._exit(9)
        elif name == "garbage":
            sys.stdout.write("oops, a print\n")
            self.text(number, "after garbage")
        elif name == "huge":
            sys.stdout.write('{"x": "' + "y" * (17 << 20) + '"}\n')
            sys.stdout.flush()
        elif name == "flood":
            for _ in range(64):
                sys.stderr.write("x" * 65_536)
            sys.stderr.flush()
            self.text(number, "flooded")
        elif name == "refuse":  # a code of its own, which the library has a meaning for, too
            self.send(id=number, error={"code": -32000, "message": "not today"})
        elif name == "close_stdout":
            os.close(1)
        else:
            self.ask_back(number, name)

    def ask_back(self, number: Any, name: str) -> None:
        """A request of the server to the client; its answer is the result."""
        form = {
            "type": "object",
            "properties": {
                "colour": {"type": "string", "enum": ["red", "blue"]},
                "count": {"type": "integer"},
            },
            "required": ["colour"],
        }
        prompt = [{"role": "user", "content": {"type": "text", "text": "hi"}}]
        method, params = {
            "ask": ("elicitation/create", {"message": "Which?", "requestedSchema": form}),
            "ask_url": ("elicitation/create", {
                "mode": "url", "message": "Log in", "url": "https://a.test/x",
                "elicitationId": "1"}),
            "roots": ("roots/list", {}),
            "sample": ("sampling/createMessage", {"messages": prompt, "maxTokens": 5}),
        }[name]  # fmt: skip
        self.asked[self.next_id] = number
        self.send(id=self.next_id, method=method, params=params)
        self.next_id += 1


def main() -> None:
    """Run one."""
    words = [word.removeprefix("--").partition("=") for word in sys.argv[1:]]
    legs = {key: value for key, _, value in words}
    folder = Path(legs.pop("dir", "."))
    try:
        Server(legs, folder).run()
    except BrokenPipeError:
        os._exit(1)


if __name__ == "__main__":
    main()
