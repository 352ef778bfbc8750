"""See to it that a model can serve before a session begins: offer the starter's download, once."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from tenure.cli.attach import Where
from tenure.clock import SystemClock
from tenure.errors import ConfigError
from tenure.home import is_held
from tenure.lifecycle.scope import Scope
from tenure.models.choice import STARTER, choose
from tenure.models.credentials import Credentials
from tenure.models.starter.weights import KNOWN, find
from tenure.processes.spawn import Spawner

if TYPE_CHECKING:
    from tenure.models.starter.download import DownloadProgress


async def ensure_model(where: Where, *, yes: bool, quiet: bool) -> None:
    """Download the starter model if it is what would serve and is not here yet.

    Args:
        where: which gateway and model; a gateway that is attached to makes its own choice.
        yes: agree without being asked.
        quiet: no progress on stderr.

    Raises:
        ConfigError: somebody must agree and nobody can be asked, or said no.
        ModelError: no source has it.
    """
    if where.connect or is_held(where.home):
        return  # the gateway that is attached to has chosen its model
    stored = Credentials(where.own.credentials).load()
    config = where.loaded.config
    choice = choose(config, where.environ, stored, session="", flag=where.model)
    if choice.provider != STARTER or choice.name not in {"", *(k.name for k in KNOWN)}:
        return  # a name that there is not is refused where it is asked for
    if find(where.home.models, config.starter.gguf, choice.name) is None:
        await pull(where, yes=yes, quiet=quiet)


async def pull(where: Where, *, yes: bool, quiet: bool) -> None:
    """Ask, then download with a progress bar. Interrupting keeps what has come for next time."""
    from tenure.models.starter.download import Downloader, announcement

    if not quiet:
        sys.stderr.write(announcement(where.home.models) + "\n")
    if not yes:
        _agree()
    scope = Scope.root("download", SystemClock())
    show = _nothing if quiet else _Bar().show
    try:
        spawner = Spawner(instance="download", environ=where.environ, clock=scope.clock)
        downloader = Downloader(
            where.home.models,
            scope=scope,
            spawner=spawner,
            clock=scope.clock,
            environ=where.environ,
            on_progress=show,
        )
        await downloader.fetch()
    finally:
        await scope.close("done")
        if not quiet:
            sys.stderr.write("\n")


def _agree() -> None:
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise ConfigError(
            "The starter model is not here and nobody can be asked; agree with --yes or "
            "`tenure model pull --yes`, or name another model with --model."
        )
    sys.stderr.write("Download it? [Y/n] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in {"", "y", "yes"}:
        raise ConfigError("Not downloaded; name another model with --model.")


def _nothing(_progress: DownloadProgress) -> None:
    return


class _Bar:
    """A progress bar on one line of stderr, or a line every tenth where that is no terminal."""

    def __init__(self) -> None:
        self._tty = sys.stderr.isatty()
        self._tenth = -1
        self._phase = ""

    def show(self, progress: DownloadProgress) -> None:
        """Draw."""
        share = progress.done / progress.total if progress.total else 0.0
        text = (
            f"{progress.phase} {progress.title}: {progress.done / 1e6:,.0f} of "
            f"{progress.total / 1e6:,.0f} MB"
        )
        if self._tty:
            filled = round(share * 24)
            sys.stderr.write(f"\r\x1b[K[{'█' * filled}{'·' * (24 - filled)}] {share:4.0%} {text}")
        elif int(share * 10) != self._tenth or progress.phase != self._phase:
            self._tenth, self._phase = int(share * 10), progress.phase
            sys.stderr.write(f"{share:4.0%} {text}\n")
        sys.stderr.flush()
