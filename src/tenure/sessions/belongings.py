"""What a session has on disk beside its rows: whole outputs of its tools, and its checkpoints."""

from __future__ import annotations

import shutil

from tenure.checkpoints.records import Records
from tenure.config import Home
from tenure.ids import checked_session_id


def forget_files(home: Home, session_id: str) -> None:
    """Remove them; blocks. What several checkpoints share goes with the next sweep.

    Args:
        home: of the session's profile.
        session_id: whose; a folder of that name is removed.
    """
    name = checked_session_id(session_id)
    shutil.rmtree(home.spill / name, ignore_errors=True)
    Records(home.checkpoints).forget(name)
