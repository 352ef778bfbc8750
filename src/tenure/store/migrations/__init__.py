"""The steps between revisions, one file each; `STEPS` maps a revision to the step that reaches it.

Each step is a function of Alembic's `Operations`. 0001 is the first schema, so it is also the
whole of it: tests prove that it equals the metadata in `store/schema.py`.
"""

from __future__ import annotations

from collections.abc import Callable

from alembic.operations import Operations

from tenure.store.migrations import (
    r0001_first,
    r0002_restart,
    r0003_keys,
    r0004_questions,
    r0005_finding,
    r0006_notes,
    r0007_ends,
    r0008_containers,
    r0009_uploads,
    r0010_memories,
)

STEPS: dict[str, Callable[[Operations], None]] = {
    "0001": r0001_first.upgrade,
    "0002": r0002_restart.upgrade,
    "0003": r0003_keys.upgrade,
    "0004": r0004_questions.upgrade,
    "0005": r0005_finding.upgrade,
    "0006": r0006_notes.upgrade,
    "0007": r0007_ends.upgrade,
    "0008": r0008_containers.upgrade,
    "0009": r0009_uploads.upgrade,
    "0010": r0010_memories.upgrade,
}
