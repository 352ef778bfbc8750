"""Where a command works that only looks, although the configuration is wrong."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tenure.cli.attach import Where, check_used
from tenure.config import Config, Loaded, find_home, read_environment
from tenure.errors import ConfigError
from tenure.settings import CheckpointsConfig, RetentionConfig

if TYPE_CHECKING:
    from tenure.processes.guard import Guarded

EVER = 1e6
"""Days."""


def where_anyway(exc: ConfigError, *, connect: str, profile: str, guarded: Guarded | None) -> Where:
    """Where to look, with values that remove nothing, since those of the file are not known.

    Args:
        exc: what is wrong.
        connect: see `Where`.
        profile: the one named, or empty.
        guarded: see `Where`.

    Raises:
        ConfigError: `exc`, if that is not about the configuration file.
        NotFound: there is no such profile.
    """
    environ = read_environment()
    home = find_home(environ)
    name = "" if connect else check_used(home, profile)
    own = home.profile(name or "default")
    try:
        cwd = Path.cwd()
    except FileNotFoundError:
        raise exc from None
    if not home.config.is_file() and not own.config.is_file():
        raise exc
    loaded = Loaded(removing_nothing(), own.config, exists=True)
    return Where(
        home=home, base=loaded, profile=name, loaded=loaded, environ=environ, connect=connect,
        cwd=cwd, guarded=guarded, broken=exc.message,
    )  # fmt: skip


def removing_nothing() -> Config:
    """The defaults, but nothing is too old or too much: what was to be kept longer must stay."""
    most = sys.maxsize
    return Config(
        retention=RetentionConfig(
            spill_days=EVER, spill_bytes_max=most, backup_days=EVER, backups_max=most,
            events_days=EVER,
        ),
        checkpoints=CheckpointsConfig(
            keep_days=EVER, per_session_max=most, store_bytes_max=most
        ),
    )  # fmt: skip
