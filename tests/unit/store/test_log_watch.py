"""The write-ahead log that is written to is the one that was, or nothing is written."""

from __future__ import annotations

import pytest

from tenure.errors import StoreError
from tenure.store.log_watch import LogWatch


def test_a_log_that_goes_during_a_write_is_not_taken_for_the_one_that_was(tmp_path):
    log, watch = tmp_path / "t.db-wal", LogWatch(tmp_path / "t.db")
    watch.check()  # there is none before the first write
    log.write_bytes(b"ours")
    watch.remember()
    watch.check()
    log.rename(tmp_path / "kept")  # its inode is not given out again
    log.write_bytes(b"another's")
    watch.remember()
    with pytest.raises(StoreError, match="removed or replaced"):
        watch.check()
    log.unlink()
    with pytest.raises(StoreError, match="removed or replaced"):
        watch.check()
