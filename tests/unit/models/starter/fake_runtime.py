"""A runtime child without a model: the same lines on its pipes, the same wire, scripted answers.

What it does is chosen by words in the last message: ``call NAME``, ``prose``, ``die``, ``slow``,
``refuse``.
Everything it is asked goes into ``log.jsonl`` in the folder of the states.
"""

import json
import os
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

orders = json.loads(sys.stdin.buffer.readline())
log = Path(orders["states"]) / "log.jsonl"


def note(**entry):
    with log.open("a") as file:
        file.write(json.dumps(entry) + "\n")


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_POST(self):
        raw = self.rfile.read(int(self.headers["content-length"]))
        body = json.loads(raw)
        ok = self.headers["authorization"] == f"Bearer {orders['key']}"
        note(path=self.path, body=body, ok=ok)
        if self.path.startswith("/slots/"):
            state = Path(orders["states"]) / body["filename"]
            if self.path.endswith("save"):
                state.write_text("state")
            elif state.read_text() != "state":
                self.send_response(400)
                self.send_header("content-length", "0")
                return self.end_headers()
            return self.reply(b"{}", "application/json")
        text = body["messages"][-1]["content"]
        if "refuse" in text:
            self.send_response(400)
            self.send_header("content-length", "0")
            return self.end_headers()
        if "die" in text:
            os._exit(9)
        if "slow" in text:
            self.reply(self.chunk({"content": "one"}), "text/event-stream", end=False)
            threading.Event().wait(60)
        answer = self.written(text)
        progress = {"prompt_progress": {"total": 300, "cache": 0, "processed": 300, "time_ms": 250}}
        pieces = [self.event({"choices": [], **progress})]
        pieces += [self.chunk({"content": c}) for c in answer]
        pieces += [
            self.chunk({}, "stop"),
            self.event(
                {"choices": [], "usage": {"prompt_tokens": 300, "completion_tokens": len(answer)}}
            ),
            b"data: [DONE]\n\n",
        ]
        return self.reply(b"".join(pieces), "text/event-stream")

    def written(self, text):
        if "call" in text:
            return '```json\n{"name":"shell","arguments":{"command":"ls"}}\n```'
        if "prose" in text:
            return 'I look.\n```json\n{"name":"shell","arguments":{"command":"ls"}}\n```\nResult: made up'
        return "Hello!"

    def event(self, data):
        return f"data: {json.dumps(data)}\n\n".encode()

    def chunk(self, delta, finish=None):
        return self.event({"choices": [{"delta": delta, "finish_reason": finish}]})

    def reply(self, body, kind, end=True):
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        self.wfile.write(b"%x\r\n%b\r\n" % (len(body), body) + (b"0\r\n\r\n" if end else b""))
        self.wfile.flush()


mode = Path(orders["model"]).read_bytes()[4:].decode()
if mode == "fails":
    print(json.dumps({"failed": "The fake cannot load this."}), flush=True)
    sys.exit(1)
if mode == "dies":
    print("out of luck", file=sys.stderr, flush=True)
    os._exit(7)
if mode == "mute":
    sys.stdin.buffer.read()
    sys.exit(0)
if mode == "babbles":
    print("hello", flush=True)
    sys.stdin.buffer.read()
    sys.exit(0)
server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
server.daemon_threads = True
threading.Thread(target=server.serve_forever, daemon=True).start()
note(started=os.getpid(), orders={**orders, "key": "…"}, argv=sys.argv)
report = {"url": f"http://127.0.0.1:{server.server_port}", "load_s": 0.1, "version": "fake"}
print(json.dumps(report), flush=True)
sys.stdin.buffer.read()
os._exit(0)
