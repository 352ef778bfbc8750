"""A box on this machine, made by bubblewrap (``bwrap``) for each command.

Inside, the system is read-only, the working directory is writable, and nothing else of the machine
is there: no other process, no home of the user, no home of the gateway, no network unless it is let
in. ``/tmp`` and the home are folders of the session's own, on disk, so that one command finds what
another has left; they end with the session.

Two options of bwrap are not used, and that is meant. ``--die-with-parent`` follows the *thread*
that started it; a box ends because every process of it is found and ended (`containment`), and its
first process takes all others along. ``--new-session`` would take the controlling terminal away
from whoever was given one; a command without a terminal has none to inject anything into, since
each child leads a session of its own.
"""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tenure.errors import ProcessError
from tenure.lifecycle.deadline import deadline
from tenure.lifecycle.lease import Lease
from tenure.lifecycle.scope import Scope
from tenure.lifecycle.threads import call_in_thread
from tenure.processes.spawn import Process, Spawner
from tenure.sandbox.base import Confinement, Order

PROGRAM = "bwrap"
PROBE_S = 5.0
SYSTEM = (
    "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/opt", "/nix",
    "/snap", "/gnu", "/var/lib/dpkg", "/var/lib/alternatives", "/sys/devices/system/cpu",
    "/run/systemd/resolve",
)  # fmt: skip
"""What is there to read, where the machine has it. The last is where the names of hosts are."""
TOOLCHAINS = (
    ".pyenv", ".nvm", ".volta", ".asdf", ".sdkman", ".rustup", ".cargo/bin", ".deno", ".bun",
    ".local/bin", ".local/lib", ".local/share/uv", ".local/share/mise", ".local/share/pnpm",
    "go/bin", "go/pkg",
)  # fmt: skip
"""Of the user's home: programs, and nothing that is a secret."""
SECRETS = (
    ".ssh", ".aws", ".gnupg", ".kube", ".docker", ".azure", ".password-store", ".config/gcloud",
    ".config/gh", ".config/hub", ".config/op", ".config/rclone", ".mozilla", ".netrc", ".pgpass",
    ".git-credentials", ".npmrc", ".pypirc", ".cargo/credentials", ".cargo/credentials.toml",
    ".bash_history", ".zsh_history", ".python_history", ".local/share/keyrings",
    ".config/google-chrome", ".config/chromium", ".terraform.d", ".vault-token",
)  # fmt: skip
"""Hidden where the working directory holds the user's home."""
SYSTEM_SECRETS = (
    "/etc/shadow", "/etc/gshadow", "/etc/shadow-", "/etc/gshadow-", "/etc/sudoers",
    "/etc/ssl/private", "/etc/letsencrypt", "/etc/krb5.keytab",
    *(f"/etc/ssh/ssh_host_{kind}_key" for kind in ("rsa", "ecdsa", "ed25519", "dsa")),
)  # fmt: skip
"""Hidden also from a gateway that runs as root."""
NO_BOX = ("/", "/usr", "/etc", "/bin", "/sbin", "/lib", "/dev", "/proc", "/sys", "/run", "/tmp")  # noqa: S108
"""Working directories that leave nothing to confine: they are, or hold, the system itself."""
_SWITCHES = (
    "/proc/sys", "/proc/irq", "/proc/bus", "/proc/fs", "/proc/acpi", "/proc/scsi",
    "/proc/sysrq-trigger",
)  # fmt: skip
"""Of the kernel, for all of the machine: root may turn them without any capability."""
_LEND = 'exec 3<&0 4>&1 </dev/null >/dev/null "$@"'
_TAKE = 'exec <&3 >&4 3<&- 4>&- "$@"'
"""A box's own processes keep the first three descriptors open, and no others: so what is piped goes
round them, and whoever reads it learns that the command itself has closed it."""
_DROPPED = ("XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME")


class Layout(NamedTuple):
    """What the boxes of all sessions with one working directory look like.

    Attributes:
        root: the working directory; writable.
        user_home: where HOME points; a folder of the session's own.
        gateway_home: never visible.
        boxes: a folder of each session's own, by its id, which holds its ``tmp`` and ``home``.
        network: whether commands reach the network.
        read: further paths that can be read.
        write: further paths that can be written.
        outputs: each session's whole outputs, by its id, which the session itself can read once
            there are any; None: nowhere.
    """

    root: Path
    user_home: Path
    gateway_home: Path
    boxes: Path
    network: bool = False
    read: tuple[Path, ...] = ()
    write: tuple[Path, ...] = ()
    outputs: Path | None = None


def why_no_box(root: Path, gateway_home: Path) -> str:
    """Why a working directory cannot be boxed; empty if it can be. By spelling alone."""
    if str(root) in NO_BOX:
        return f"{root} holds the system itself"
    if root == gateway_home or root.is_relative_to(gateway_home):
        return f"{root} is the gateway's own"
    return ""


def box_arguments(layout: Layout, owner: str, order: Order) -> list[str]:
    """The command line that runs `order` in a box. Looks at what exists, for what must be hidden.

    Order matters: what comes later lies on top of what came before.

    Args:
        layout: what the box looks like.
        owner: the session.
        order: what to run.
    """
    root, home, private = layout.root, layout.user_home, layout.boxes / owner
    argv = _begin(network=layout.network or order.network)
    argv += ["--bind", str(private / "tmp"), "/tmp", "--symlink", "/tmp", "/var/tmp"]  # noqa: S108
    if home != Path("/"):
        argv += ["--bind", str(private / "home"), str(home)]
        for name in TOOLCHAINS:
            argv += ["--ro-bind-try", str(home / name), str(home / name)]
    for path in layout.read:
        argv += ["--ro-bind-try", str(path), str(path)]
    for path in layout.write:
        argv += ["--bind-try", str(path), str(path)]
    argv += ["--bind", str(root), str(root)]
    for hidden in _hidden(layout):
        argv += _covered(hidden, private / "nothing")
    if layout.outputs is not None:  # in the gateway's home, of which nothing else is there
        outputs = str(layout.outputs / owner)
        argv += ["--ro-bind-try", outputs, outputs]
    for name in _DROPPED:
        argv += ["--unsetenv", name]
    argv += ["--setenv", "TMPDIR", "/tmp", "--chdir", str(root), "--"]  # noqa: S108
    if order.stdin == "pipe" and order.stderr != "merge" and order.screen is None:
        return ["sh", "-c", _LEND, "sh", *argv, "sh", "-c", _TAKE, "sh", *order.argv]
    return [*argv, *order.argv]


def _begin(*, network: bool) -> list[str]:
    """Namespaces and the read-only system."""
    argv = [PROGRAM, "--unshare-all", "--cap-drop", "ALL", "--hostname", "sandbox"]
    if network:
        argv.append("--share-net")
    for path in SYSTEM:
        argv += ["--ro-bind-try", path, path]
    argv += ["--proc", "/proc", "--dev", "/dev"]
    for path in _SWITCHES:
        argv += ["--ro-bind-try", path, path]
    return argv


def _hidden(layout: Layout) -> Iterator[Path]:
    """What a path that is shown would show, too."""
    shown = [layout.root, *layout.read, *layout.write]
    yield from map(Path, SYSTEM_SECRETS)
    for secret in (layout.user_home / name for name in SECRETS):
        works_there = layout.root.is_relative_to(secret)  # somebody wanted to
        if not works_there and any(secret.is_relative_to(path) for path in shown):
            yield secret
    home = layout.gateway_home
    if any(home.is_relative_to(path) for path in (*shown, *map(Path, SYSTEM))):
        yield home


def _covered(path: Path, nothing: Path) -> list[str]:
    """Options that cover what is there with nothing; none where nothing is."""
    try:
        state = path.lstat()
    except OSError:
        return []
    if stat.S_ISLNK(state.st_mode):
        target = path.resolve()
        return _covered(target, nothing) if target != path else []
    if stat.S_ISDIR(state.st_mode):
        return ["--tmpfs", str(path)]
    return ["--ro-bind", str(nothing), str(path)]


class Bubblewrap:
    """One session's boxes.

    Args:
        spawner: starts children.
        layout: what they look like.
        owner: the session: its folders, and the label of each child.
        session: owns the folders of the boxes, from the first command on.
        why: why this sandbox, for people.
    """

    files = None

    def __init__(
        self, spawner: Spawner, layout: Layout, owner: str, session: Scope, why: str
    ) -> None:
        self._spawner = spawner
        self._layout = layout
        self._owner = owner
        self._session = session
        self._made: Lease[Path] | None = None
        self.root = layout.root
        self.confinement = _confinement(why, network=layout.network)

    @property
    def _private(self) -> Path:
        """The session's own folder."""
        return self._layout.boxes / self._owner

    @functools.cached_property
    def hidden(self) -> tuple[Path, ...]:
        """See `Sandbox`; found when a file is first asked for (0.7 ms)."""
        root = self._layout.root
        return tuple(path for path in _hidden(self._layout) if path.is_relative_to(root))

    async def start(self, scope: Scope, order: Order) -> Process:
        """See `Sandbox.start`."""
        await self._make_folders()
        process = await self._spawner.spawn(
            scope,
            box_arguments(self._layout, self._owner, order),
            cwd=self.root,
            env=order.env,
            stdin=order.stdin,
            stderr=order.stderr,
            label=order.label or Path(order.argv[0]).name,
            kind=order.kind,
            owner=self._owner,
            screen=order.screen,
        )
        process.wraps = True
        return process

    async def _make_folders(self) -> None:
        """Make the box's own folders, once; the session removes them.

        Raises:
            ProcessError: they cannot be made.
        """
        if self._made is None:
            self._made = self._session.reserve(
                "sandbox", self._make, self._remove, label=self._owner
            )
        try:
            await self._made.arrived()
        except OSError as exc:
            self._made = None
            raise ProcessError(
                f"The sandbox's folder {self._private} cannot be made: {exc.strerror}."
            ) from exc

    async def _make(self) -> Path:
        return await call_in_thread(make_folders, self._private)

    async def _remove(self, private: Path) -> None:
        await call_in_thread(remove_tree, private)


@functools.lru_cache(maxsize=16)
def _confinement(why: str, *, network: bool) -> Confinement:
    reach = "with" if network else "without"
    about = f"in a box on this machine, {reach} network ({why})"
    return Confinement("bubblewrap", confined=True, network=network, about=about)


def make_folders(private: Path) -> Path:
    """Make the folders of a session's boxes (0700), empty, whatever was there; blocks."""
    remove_tree(private)
    private.mkdir(mode=0o700, parents=True)
    for name in ("tmp", "home"):
        (private / name).mkdir(mode=0o700)
    (private / "nothing").touch(mode=0o400)
    return private


def remove_tree(path: Path) -> None:
    """Remove a folder with everything in it, also what its owner may not enter; blocks."""
    shutil.rmtree(path, ignore_errors=True)
    if path.exists():
        for folder, folders, _files in os.walk(path):
            for name in folders:
                with contextlib.suppress(OSError):
                    Path(folder, name).chmod(0o700)
        shutil.rmtree(path, ignore_errors=True)


async def probe(spawner: Spawner, scope: Scope) -> str:
    """Try a box; why there can be none, empty if it works. Takes about 10 ms.

    Args:
        spawner: starts it.
        scope: owns it meanwhile.
    """
    argv = [*_begin(network=False), "--", "true"]
    try:
        process = await spawner.spawn(scope, argv, stderr="merge", label="sandbox probe")
    except ProcessError as exc:
        return exc.message
    try:
        async with deadline(scope.clock, PROBE_S):
            said = b""
            assert process.stdout is not None
            while piece := await process.stdout.read():
                said = (said + piece)[-500:]
            status = await process.wait()
    except TimeoutError:
        return f"{PROGRAM} did not answer within {PROBE_S:.0f} s"
    finally:
        await process.stop()
    return "" if status == 0 else said.decode("utf-8", "replace").strip() or f"exit code {status}"
