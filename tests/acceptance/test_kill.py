"""SIGKILL, the real thing: what ran is gone, what was said is kept, and the next start says why."""

from __future__ import annotations

import asyncio
import os
import re
import signal
from pathlib import Path

import pytest

from support.commands import Place
from support.models import ONE_THREAD, SMOLLM2, smollm2_cache
from support.served import kill_quietly, pids_with, promised, serving, wait_for
from tenure.processes.procfs import identity_of, is_alive

GONE_S = 2.0
DAEMON = (
    "cd / && env -i /bin/sh -c '(setsid sleep {n} >/dev/null 2>&1 </dev/null &)' && exec sleep {n}"
)


@pytest.fixture
def place(tmp_path) -> Place:
    return Place(tmp_path)


class Load:
    """A gateway at work: a shell command, a background job and a daemon that has shed everything."""

    def __init__(self, place: Place, n: int = 0) -> None:
        self.place = place
        self.n = n or 10_000_000 + os.getpid()
        self.pids: dict[int, str] = {}
        self.session = ""
        daemon = DAEMON.format(n=self.n)
        self.ref = place.script(
            [
                {
                    "call": {
                        "name": "background",
                        "arguments": {"action": "start", "command": daemon},
                    }
                },
                {
                    "call": {
                        "name": "shell",
                        "arguments": {"command": f"sleep {self.n}", "timeout_s": 60},
                    }
                },
            ],
            {"text": "never reached"},
        )

    def look(self) -> dict[int, str]:
        """What runs of it, the runtime of the starter included."""
        sleeping = pids_with(f"sleep\x00{self.n}")
        runtime = pids_with(str(self.place.root), "starter.runtime")
        return {**sleeping, **runtime}

    async def begin(self, served, *, starter: bool) -> None:
        async with served.client() as client:
            self.session = await client.ready_session(auto_approve=True, cwd=str(self.place.work))
            receipt = await client.call("prompt.submit", session_id=self.session, text="work on")
            assert receipt["status"] == "streaming"
            if starter:
                other = await client.ready_session(model=f"starter:{SMOLLM2}")
                await client.call("prompt.submit", session_id=other, text="Count to a thousand.")
        # The runtime, the daemon, the job and the shell command (and its shell).
        wait_for(lambda: len(self.look()) >= 3 + starter, "the work is under way")
        self.pids = self.look()
        bare = [p for p in self.pids if b"PATH" not in Path(f"/proc/{p}/environ").read_bytes()]
        assert bare, "one has no environment of ours"

    def ended(self) -> bool:
        return not {pid for pid in self.pids if pid in pids_with("")} and not self.look()


@pytest.fixture
def load(place):
    place.config(ONE_THREAD)
    load = Load(place)
    yield load
    for pid in load.look():
        kill_quietly(pid)


def rows(place: Place, session: str):
    """The session as a gateway that starts now finds it."""
    (row,) = [r for r in place.run("sessions", "list", "--json").rows() if r["id"] == session]
    return row


def ended_as(place: Place, session: str) -> tuple[str, str]:
    row = rows(place, session)
    return row["status"], row["reason"]


def kill(served, who: str) -> None:
    pids = {"gateway": [served.pid], "guard": [served.guard_pid]}.get(who) or [
        served.guard_pid,
        served.pid,
    ]
    if who == "both":
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)  # so that neither sees the other's end
    for pid in pids:
        os.kill(pid, signal.SIGKILL)


async def start_and_kill(load: Load, who: str, *, starter: bool = False) -> None:
    with serving(load.place, "--model", load.ref) as served:
        await load.begin(served, starter=starter)
        identity = identity_of(served.pid)
        kill(served, who)
        served.process.wait(30)
        if who != "both":
            promised(load.ended, f"all is gone after the {who}", GONE_S)
        promised(lambda: not is_alive(identity), "the gateway is gone", GONE_S)


OFF = "recovery: The interrupted turn does not go on: recovery.continue_turns is off."


async def check_next_start(load: Load, reason: str = OFF) -> None:
    load.place.config("[recovery]\ncontinue_turns = false\n")  # otherwise: test_random_kills.py
    ref = load.place.script({"text": "Still here."}, name="next.json")
    with serving(load.place, "--model", ref) as again:
        promised(load.ended, "all is gone at the next start", GONE_S)
        told = ("closed", reason)
        wait_for(lambda: ended_as(load.place, load.session) == told, "its end is told")
        async with again.client() as client:
            resumed = await client.call("session.resume", session_id=load.session)
            first = resumed["messages"][0]
            assert (first["role"], first["text"]) == ("user", "work on")
            assert resumed["running"] is False
            await client.call("prompt.submit", session_id=load.session, text="still there?")
            done = await client.until("message.complete", load.session)
            assert done.payload["state"] == "completed"
        assert again.stop() == 0


@pytest.mark.starter
@pytest.mark.timeout(900)  # the model may have to be downloaded
@pytest.mark.parametrize("who", ["gateway", "guard", "both"])
async def test_killed_at_work(load, who, tmp_path_factory):
    load.place.extra["XDG_CACHE_HOME"] = str(smollm2_cache(tmp_path_factory.mktemp("download")))
    await start_and_kill(load, who, starter=True)
    # A gateway that has lost its guard closes by itself; it is not killed.
    await check_next_start(load)


async def test_a_second_live_gateway_on_another_home_is_left_alone(load, tmp_path):
    other = Load(Place(tmp_path / "other"), n=load.n + 1)
    with serving(other.place, "--model", other.place.script(
        [{"call": {"name": "shell", "arguments": {"command": f"sleep {other.n}", "timeout_s": 60}}}]
    )) as neighbour:  # fmt: skip
        async with neighbour.client() as client:
            session = await client.ready_session(auto_approve=True)
            await client.call("prompt.submit", session_id=session, text="sleep")
            await client.until("tool.start")
        wait_for(other.look, "the neighbour works")
        running = set(other.look())
        await start_and_kill(load, "both")
        await check_next_start(load)
        assert set(other.look()) == running
        assert neighbour.process.poll() is None


async def test_a_prompt_is_kept_from_its_acknowledgement_on(place):
    ref = place.script([{"gate": "never"}, {"text": "x"}])
    with serving(place, "--model", ref) as served:
        async with served.client() as client:
            session = await client.ready_session()
            await client.call("prompt.submit", session_id=session, text="do not lose me")
            await client.call("prompt.submit", session_id=session, text="nor me, in the queue")
            os.kill(served.pid, signal.SIGKILL)
        served.process.wait(30)
    shown = place.run("sessions", "show", session)
    assert "do not lose me" in shown.out
    row = rows(place, session)
    assert (row["status"], row["reason"]) == ("closed", "crash")
    assert turns(place, session) == [
        ("do not lose me", "interrupted", "crash"), ("nor me, in the queue", "queued", ""),
    ]  # fmt: skip


def turns(place: Place, session: str) -> list[tuple[str, str, str]]:
    import sqlite3

    base = sqlite3.connect(f"file:{place.home / 'tenure.db'}?mode=ro", uri=True)
    try:
        return base.execute(
            "SELECT prompt, state, cause FROM turns WHERE session_id = ? ORDER BY ordinal",
            [session],
        ).fetchall()
    finally:
        base.close()


@pytest.mark.parametrize("who", ["gateway", "guard"])
def test_run_is_guarded_alike(load, who):
    process = load.place.popen("run", "--yes", "--json", "--model", load.ref, "work on")
    try:
        wait_for(lambda: len(load.look()) >= 3, "the work is under way")
        load.pids = load.look()
        (child,) = (
            p for p in pids_with(str(load.place.home), "tenure.cli.main") if p != process.pid
        )
        os.kill(child if who == "gateway" else process.pid, signal.SIGKILL)
        process.wait(30)
        promised(load.ended, f"all is gone after the {who}", GONE_S)
        promised(lambda: not pids_with(str(load.place.home)), "run itself is gone", GONE_S)
    finally:
        process.kill()
        process.communicate()
    (row,) = load.place.run("sessions", "list", "--json").rows()
    assert (row["status"], row["reason"]) == (
        ("closed", "crash") if who == "gateway" else ("closed", "the client left")
    )


def test_chat_is_guarded_alike(load):
    from support.commands import TENURE
    from support.terminal import terminal

    argv = [*TENURE, "chat", "--yes", "--model", load.ref]
    with terminal(argv, env=load.place.env, cwd=load.place.work) as term:
        term.wait("a gateway of its own", "›")
        term.enter("work on")
        wait_for(lambda: len(load.look()) >= 3, "the work is under way")
        load.pids = load.look()
        inner = max(pids_with(str(load.place.home), "tenure.cli.main"))
        os.kill(inner, signal.SIGKILL)
        promised(load.ended, "all is gone after the chat", GONE_S)
        term.wait_dead()


async def test_a_graceful_end_leaves_nothing_and_says_so(load):
    with serving(load.place, "--model", load.ref) as served:
        await load.begin(served, starter=False)
        served.process.terminate()
        promised(lambda: served.process.poll() is not None, "less than all its time", 10)
        assert served.stop() == 0
        assert load.ended()
    row = rows(load.place, load.session)
    assert row["status"] == "closed" and re.match(
        r"gateway ended \(signal SIGTERM\)", row["reason"]
    )
    assert turns(load.place, load.session) == [("work on", "interrupted", "shutdown")]


async def test_a_second_signal_ends_at_once_and_the_guard_cleans_up(place):
    # A job that ignores everything but SIGKILL makes the graceful end take its graces.
    command = "trap '' INT TERM HUP; while :; do sleep 123.456; done"
    ref = place.script(
        [{"call": {"name": "shell", "arguments": {"command": command, "timeout_s": 60}}}]
    )
    with serving(place, "--model", ref) as served:
        async with served.client() as client:
            session = await client.ready_session(auto_approve=True)
            await client.call("prompt.submit", session_id=session, text="be stubborn")
            await client.until("tool.start")
        wait_for(lambda: pids_with("sleep\x00123.456"), "it sleeps")
        os.kill(served.pid, signal.SIGTERM)
        await asyncio.sleep(1.2)  # within a second it would be the echo of the first
        os.kill(served.pid, signal.SIGTERM)
        ended = lambda: served.process.poll() in {0, 130}  # noqa: E731
        promised(ended, "far less than the graces of a stubborn job", 2 * GONE_S)
    promised(lambda: not pids_with(str(place.root)), "nothing is left", GONE_S)
