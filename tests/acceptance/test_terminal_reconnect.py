"""The terminal client that nobody here wrote: cut off mid-turn and back again, and two at once."""

from __future__ import annotations

import os
import re
import select
import socket
import threading
from contextlib import contextmanager

from support.served import serving, wait_for

SESSION = re.compile(r"\d{8}_\d{6}_[0-9a-f]{8}")


class Wire:
    """A TCP proxy to a port of this machine, which can be cut like a cable."""

    def __init__(self, port: int) -> None:
        self._to = ("127.0.0.1", port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._stop, self._stopped = os.pipe()
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._thread = threading.Thread(target=self._run, name="wire")
        self._thread.start()

    @property
    def port(self) -> int:
        return int(self._listener.getsockname()[1])

    def _run(self) -> None:
        ways: dict[socket.socket, socket.socket] = {}
        while True:
            ready, _, _ = select.select([self._stop, self._listener, *ways], [], [])
            if self._stop in ready:
                break
            for one in ready:
                if one is self._listener:
                    near, far = one.accept()[0], socket.create_connection(self._to)
                    self._pairs.append((near, far))
                    ways[near], ways[far] = far, near
                elif one in ways:
                    piece = _read(one)
                    if piece:
                        ways[one].sendall(piece)
                    else:
                        other = ways.pop(one)
                        ways.pop(other, None)
                        one.close()
                        other.close()
        for pair in self._pairs:
            for one in pair:
                one.close()
        self._listener.close()

    def cut(self) -> None:
        """End everything that is connected; nobody new is let in."""
        if self._thread.is_alive():
            os.close(self._stopped)
            self._thread.join()
            os.close(self._stop)


def _read(one: socket.socket) -> bytes:
    try:
        return one.recv(65536)
    except OSError:
        return b""


@contextmanager
def wire_to(port: int):
    wire = Wire(port)
    try:
        yield wire
    finally:
        wire.cut()


def reached(place, gate: str) -> None:
    wait_for((place.root / f"script.json.{gate}.reached").exists, f"gate {gate}")


def open_gate(place, gate: str) -> None:
    (place.root / f"script.json.{gate}.open").touch()


def test_a_client_that_was_cut_off_mid_turn_shows_the_whole_answer(place, client):
    ref = place.script(
        [{"text": "Alpha came first. "}, {"gate": "cut"}, {"text": "Omega came last."}],
        {"text": "Still here."},
    )
    with serving(place, "--model", ref) as served:
        with wire_to(served.port) as wire, client(served, port=wire.port) as term:
            term.wait("ready │ script.json")
            session = SESSION.search(term.screen()).group()
            term.enter("tell me the order")
            term.wait("Alpha came first.")
            reached(place, "cut")
            wire.cut()
            term.wait("disconnected|gateway exited|lost|reconnect|error")
        with client(served, resume=session) as term:
            term.wait("tell me the order", "Alpha came first.", r"Ctrl\+C to interrupt")
            open_gate(place, "cut")
            shown = term.wait("tell me the order", "Alpha came first. Omega came last.", "ready │")
            assert shown.count("Alpha came first.") == 1, shown
            assert shown.count("tell me the order") == 1, shown
            term.enter("are you there")
            term.wait("Still here.", "ready │")
        assert served.stop() == 0


def test_a_client_that_comes_back_after_the_end_of_the_turn_shows_the_whole_answer(place, client):
    ref = place.script(
        [{"text": "Alpha came first. "}, {"gate": "cut"}, {"text": "Omega came last."}]
    )
    with serving(place, "--model", ref) as served:
        with wire_to(served.port) as wire, client(served, port=wire.port) as term:
            term.wait("ready │ script.json")
            session = SESSION.search(term.screen()).group()
            term.enter("tell me the order")
            term.wait("Alpha came first.")
            reached(place, "cut")
            wire.cut()
            open_gate(place, "cut")
            wait_for(
                lambda: "Omega came last." in place.run("sessions", "show", session).out, "the end"
            )
        with client(served, resume=session) as term:
            term.wait("tell me the order", "Alpha came first. Omega came last.", "ready │")
        assert served.stop() == 0


def test_two_clients_on_one_session_both_stream_the_same_turn(place, client):
    ref = place.script(
        [{"text": "One for both. "}, {"gate": "middle"}, {"text": "And the rest."}],
        {"text": "Second answer."},
    )
    with serving(place, "--model", ref) as served, client(served) as first:
        first.wait("ready │ script.json")
        session = SESSION.search(first.screen()).group()
        with client(served, resume=session) as second:
            second.wait("ready │ script.json", session)
            first.enter("speak to both of us")
            for term in (first, second):
                term.wait("One for both.")
            reached(place, "middle")
            for term in (first, second):
                assert "And the rest." not in term.screen(), "it is streamed, not shown at the end"
            open_gate(place, "middle")
            for term in (first, second):
                term.wait("One for both. And the rest.", "ready │")
            second.enter("once more")
            for term in (first, second):
                shown = term.wait("Second answer.", "ready │")
                assert shown.count("Second answer.") == 1, shown
        assert served.stop() == 0
