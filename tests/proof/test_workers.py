"""Workers of the proof end when their owner does, whatever the code in them catches."""

from __future__ import annotations

import signal
import tempfile
import time
from pathlib import Path

import pytest

from proof import workers as module
from proof.workers import ENDINGS, workers


def raises(signum, frame):
    raise SystemExit(signum)


@pytest.fixture
def exceptions_for_signals():
    before = [signal.signal(signum, raises) for signum in ENDINGS]
    yield
    for signum, handler in zip(ENDINGS, before, strict=True):
        signal.signal(signum, handler)


def catches_everything(mark):
    while True:
        try:
            Path(mark).touch()
            time.sleep(60)
        except BaseException:  # noqa: BLE001 - as code under test may
            continue


def how_it_stands(_):
    handlers = [signal.getsignal(signum) for signum in ENDINGS]
    return handlers, signal.pthread_sigmask(signal.SIG_BLOCK, []), tempfile.gettempdir()


@pytest.mark.timeout(60)
def test_a_worker_that_catches_everything_ends_with_its_owner(tmp_path, exceptions_for_signals):
    with workers(1) as pool:
        pool.apply_async(catches_everything, (str(tmp_path / "mark"),))
        while not (tmp_path / "mark").exists():
            time.sleep(0.01)
    # Leaving waits for each worker: that this is reached is the point.


def test_a_worker_takes_no_handler_and_no_mask_of_its_owner(exceptions_for_signals):
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    with workers(1, tasks_each=1) as pool:
        for handlers, mask, folder in pool.map(how_it_stands, range(3), chunksize=1):
            assert handlers == [signal.SIG_DFL, signal.SIG_IGN]
            assert not mask & set(ENDINGS)
            assert folder != tempfile.gettempdir()
            place = Path(folder)
        assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == before
        assert place.is_dir()
    assert not place.exists()


def test_no_signal_comes_before_the_first_thing_that_a_worker_does(tmp_path, monkeypatch):
    begin = module._begin

    def noted(folder):
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, []) & set(ENDINGS)
        (tmp_path / "blocked").write_text(str(len(blocked)))
        begin(folder)

    monkeypatch.setattr(module, "_begin", noted)
    with workers(1) as pool:
        pool.map(how_it_stands, range(1))
    assert (tmp_path / "blocked").read_text() == "2"
