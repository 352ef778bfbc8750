"""A connection by SSH and what runs over it. Imported on first use: it brings a large library."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import shlex
import signal
from typing import Any

import asyncssh

from tenure.errors import ProcessError, SandboxUnavailable
from tenure.lifecycle.lease import Lease
from tenure.processes.terminal import FROM_KEYS, Screen
from tenure.sandbox.base import Order
from tenure.sandbox.scripts import COUNT, END, HELLO, MARK, SIGNAL, SWEEP, remote_script
from tenure.sandbox.ssh import Place, bootstrap, script

CONNECT_S = 15.0
ALIVE_S = 30.0
"""How often an idle connection is tried; after three tries without an answer it is lost."""
BUFFER_BYTES = 256 * 1024
"""What is kept of a command's output before the server is told to wait."""
SAY_S = 15.0
"""How long a script of ours may take there."""
_KEYS = {signal.SIGINT: b"\x03", signal.SIGQUIT: b"\x1c", signal.SIGTSTP: b"\x1a"}


class _Client(asyncssh.SSHClient):
    """Says whether the server's key is the pinned one, and when the connection is lost."""

    def __init__(self, fingerprint: str) -> None:
        self._fingerprint = fingerprint
        self.lost = False

    def validate_host_public_key(
        self, host: str, addr: str, port: int, key: asyncssh.SSHKey
    ) -> bool:
        """Whether it is pinned."""
        del host, addr, port
        return bool(self._fingerprint) and secrets.compare_digest(
            key.get_fingerprint(), self._fingerprint
        )

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is gone."""
        del exc
        self.lost = True


async def connect(place: Place) -> Link:
    """Connect; the caller owns the connection. Bounded by `CONNECT_S`.

    Raises:
        SandboxUnavailable: it cannot be reached, or is not who it should be.
    """
    client = _Client(place.fingerprint)
    known: Any = ([], [], []) if place.fingerprint else [str(path) for path in place.known_hosts]
    who = {"username": place.user} if place.user else {}
    try:
        connection = await asyncssh.connect(
            place.host, place.port, client_factory=lambda: client, config=None, known_hosts=known,
            client_keys=[str(path) for path in place.keys] or None,
            agent_path=place.agent or None, agent_forwarding=False, gss_auth=False, gss_kex=False,
            x11_forwarding=False, preferred_auth="publickey", connect_timeout=CONNECT_S,
            login_timeout=CONNECT_S, keepalive_interval=ALIVE_S, encoding=None, **who,
        )  # fmt: skip
    except (OSError, asyncssh.Error, ValueError) as exc:
        raise SandboxUnavailable(f"{place.shown} cannot be used: {_why(exc, place)}") from exc
    link = Link(connection, client)
    try:
        await link.say(remote_script(SWEEP, session=place.session_id, instance=place.label))
    except ProcessError:
        await link.aclose()
        raise
    return link


def _why(exc: Exception, place: Place) -> str:
    if isinstance(exc, asyncssh.HostKeyNotVerifiable):
        known = place.fingerprint or ", ".join(map(str, place.known_hosts)) or "nothing"
        return (
            f"the key of the server is not the one that is known ({known}); make sure who it is, "
            "then set sandbox.ssh.fingerprint or add it to known_hosts."
        )
    if isinstance(exc, asyncssh.PermissionDenied):
        return "it accepts none of the keys (sandbox.ssh.key)."
    return f"{str(exc).rstrip('.') or type(exc).__name__}."


class Link:
    """One connection. Made by `connect`."""

    def __init__(self, connection: asyncssh.SSHClientConnection, client: _Client) -> None:
        self._connection = connection
        self._client = client
        self._sftp: asyncssh.SFTPClient | None = None

    @property
    def lost(self) -> bool:
        """Whether it is gone."""
        return self._client.lost

    async def aclose(self) -> None:
        """End it."""
        self._connection.close()
        await self._connection.wait_closed()

    def abort(self) -> None:
        """End it at once."""
        self._connection.abort()

    # --- commands ---------------------------------------------------------------------------------

    async def start(self, label: str, directory: str, order: Order) -> Remote:
        """Start a command; the caller owns it, and must `end` it.

        Raises:
            ProcessError: the connection is gone, or the server refuses.
        """
        text = script(label, directory, order).encode()
        terminal: dict[str, Any] = {}
        command = bootstrap(len(text))
        if (
            order.screen is not None
        ):  # what is typed there is shown: the script goes with the command
            command = f"{HELLO}; eval {_quoted(text)}"
            terminal = {
                "term_type": order.env.get("TERM", "xterm"),
                "term_size": tuple(order.screen),
            }
        remote = Remote(self, label, on_terminal=order.screen is not None)
        try:
            await self._connection.create_session(
                lambda: remote, f"exec sh -c {_quoted(command.encode())}", **terminal
            )
            if order.screen is None:
                await remote.write(text)
                if order.stdin == "null":
                    remote.close_stdin()
            await remote.began()
        except (OSError, asyncssh.Error) as exc:
            remote.cut()
            raise ProcessError(f"The command cannot be started there: {exc}.") from exc
        except ProcessError:
            remote.cut()
            raise
        return remote

    async def say(self, command: str) -> str:
        """Run a script of ours to its end; what it prints. Bounded by `SAY_S`.

        Raises:
            ProcessError: the connection is gone, or it fails.
        """
        try:
            async with asyncio.timeout(SAY_S):
                done = await self._connection.run(command, encoding=None, check=False)
        except (OSError, asyncssh.Error, TimeoutError) as exc:
            raise ProcessError(f"The connection by SSH has failed: {exc}.") from exc
        if done.returncode != 0:
            raise ProcessError(f"A script of ours has failed there ({done.returncode}).")
        said = done.stdout or b""
        return said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said)

    async def files(self) -> asyncssh.SFTPClient:
        """The one client for files; opened on first use, ends with the connection."""
        if self._sftp is None:
            self._sftp = await self._connection.start_sftp_client()
        return self._sftp


def _quoted(text: bytes) -> str:
    return shlex.quote(text.decode("utf-8", "surrogateescape"))


# --- a command ------------------------------------------------------------------------------------


class Remote(asyncssh.SSHClientSession[bytes]):
    """A command over there; has the face of `Running`, and is told by the library what happens.

    Attributes:
        pid: 0: nothing runs here for it.
        returncode: see `Running`.
    """

    def __init__(self, link: Link, label: str, *, on_terminal: bool) -> None:
        self.pid = 0
        self.returncode: int | None = None
        self.verdict = ""  # limits of the other machine are its own
        self.open_files = 0
        self._link = link
        self._label = label
        self._on_terminal = on_terminal
        self._root = ""
        """Its process id over there; empty until it has said it."""
        self._channel: asyncssh.SSHClientChannel[bytes] | None = None
        self._kept = bytearray()
        self._ended = False
        self._news = asyncio.Event()
        self._may_write = asyncio.Event()
        self._may_write.set()
        self._closed = asyncio.Event()
        self._stdin_open = True
        self._lease: Lease[Remote] | None = None

    # --- told by the library ----------------------------------------------------------------------

    def connection_made(self, chan: asyncssh.SSHClientChannel[bytes]) -> None:
        """The channel is there."""
        self._channel = chan

    def data_received(self, data: bytes, datatype: int | None) -> None:
        """Output has come; over the limit the server is told to wait."""
        del datatype
        self._kept += data
        while not self._root and b"\n" in self._kept:
            line, _, rest = bytes(self._kept).partition(b"\n")
            self._root = line.decode("ascii", "replace").partition(MARK)[2].strip()
            self._kept = bytearray(rest)
        if len(self._kept) >= BUFFER_BYTES and self._channel is not None:
            self._channel.pause_reading()
        self._wake()

    def eof_received(self) -> bool:
        """Output is over; input may go on."""
        self._ended = True
        self._wake()
        return True

    def exit_status_received(self, status: int) -> None:
        """It has exited."""
        self.returncode = status
        self._wake()

    def exit_signal_received(self, signal: str, core_dumped: bool, msg: str, lang: str) -> None:
        """A signal has ended it."""
        del core_dumped, msg, lang
        self.returncode = -_number(signal)
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        """The channel is closed; how it ended is then known, or never will be."""
        del exc
        if self.returncode is None:
            self.returncode = 255
        self._ended = self._stdin_open = True
        self._stdin_open = False
        self._may_write.set()
        self._closed.set()
        self._wake()

    def pause_writing(self) -> None:
        """The server does not read."""
        self._may_write.clear()

    def resume_writing(self) -> None:
        """It does again."""
        self._may_write.set()

    def _wake(self) -> None:
        news, self._news = self._news, asyncio.Event()
        news.set()

    # --- Running ----------------------------------------------------------------------------------

    @property
    def stdout(self) -> Remote:
        """Itself."""
        return self

    @property
    def stderr(self) -> None:
        """There is one pipe only."""
        return

    @property
    def terminal(self) -> Remote | None:
        """Itself, if it has one."""
        return self if self._on_terminal else None

    async def began(self) -> None:
        """Wait until it says its process id.

        Raises:
            ProcessError: it has ended before.
        """
        try:
            async with asyncio.timeout(CONNECT_S):
                while not self._root and not self._closed.is_set():
                    await self._news.wait()
        except TimeoutError:
            raise ProcessError("The other machine's shell does not answer.") from None
        if not self._root.isdigit():
            raise ProcessError("The other machine's shell did not start the command.")

    async def read(self, n: int = 65_536) -> bytes:
        """See `Output`. What it has left running may hold its output open: then its exit ends it.

        A server may tell the exit before the last of the output. It reads all that was written
        before it answers a later request, so output is over once a request has brought none.
        """
        while not self._kept and not self._ended:
            if self.returncode is None:
                await self._news.wait()
                continue
            with contextlib.suppress(ProcessError):
                await self._link.say(":")
            if not self._kept:
                break
        piece = bytes(self._kept[:n])
        del self._kept[:n]
        if len(self._kept) < BUFFER_BYTES and self._channel is not None:
            self._channel.resume_reading()
        return piece

    async def wait(self) -> int:
        """See `Running`."""
        while self.returncode is None:
            await self._news.wait()
        return self.returncode

    async def write(self, data: bytes) -> None:
        """See `Running`."""
        await self._may_write.wait()
        if self._channel is None or not self._stdin_open:
            raise ProcessError("The process's input is closed.")
        try:
            self._channel.write(data)
        except OSError as exc:
            raise ProcessError("The process has closed its input.") from exc

    def close_stdin(self) -> None:
        """End of input. Idempotent."""
        if self._stdin_open and self._channel is not None:
            self._stdin_open = False
            with contextlib.suppress(OSError):
                self._channel.write_eof()

    def resize(self, screen: Screen) -> bool:
        """See `Screened`."""
        if self._channel is None or self._closed.is_set():
            return False
        self._channel.change_terminal_size(screen.columns, screen.rows)
        return True

    def press(self, signum: int) -> bool:
        """See `Screened`: the key itself is typed."""
        if signum not in FROM_KEYS or self._channel is None or self._closed.is_set():
            return False
        self._channel.write(_KEYS[signal.Signals(signum)])
        return True

    async def signal_all(self, signum: int) -> None:
        """See `Running`."""
        name = signal.Signals(signum).name.removeprefix("SIG")
        await self._say(SIGNAL, signal=name)

    async def count_left(self) -> int:
        """See `Running`."""
        return int((await self._say(COUNT)).partition(MARK)[2])

    async def stop(self) -> None:
        """See `Running`."""
        assert self._lease is not None
        await self._lease.release()

    # --- for Ssh ----------------------------------------------------------------------------------

    def adopted(self, lease: Lease[Remote]) -> None:
        """A scope owns it from here on."""
        self._lease = lease

    async def end(self) -> None:
        """The release: end all of it there, then the channel.

        Raises:
            ProcessError: the connection is gone, or something is left.
        """
        try:
            self.close_stdin()
            if not self._link.lost:
                await self._say(END)
        finally:
            self.cut()
        if self._link.lost:
            raise ProcessError("The connection by SSH was lost; the command may run on there.")
        await self._closed.wait()

    def cut(self) -> None:
        """Close the channel, without waiting."""
        if self._channel is not None:
            self._channel.close()

    async def _say(self, text: str, **variables: str) -> str:
        return await self._link.say(
            remote_script(text, root=self._root, label=self._label, **variables)
        )


def _number(name: str) -> int:
    try:
        return int(signal.Signals[f"SIG{name}"])
    except KeyError:
        return int(signal.SIGKILL)
