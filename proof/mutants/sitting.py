"""A sitting: pytest is started and its files are collected once, and each trial is a fork of that.

To start pytest and to import a file of tests takes longer than most of these tests. What cannot be
tried so, and whatever is not killed, is tried again by itself (`killers.run`).
"""

from __future__ import annotations

import gc
import os
import signal
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NoReturn

import pytest

from proof.mutants import trial
from proof.mutants.killers import QUIET, Witness
from proof.mutants.table import Mutant
from proof.mutants.trial import End, Outcome

ROWS_MAX = 30
"""Of one sitting, so that both workers have something to do until the end."""


FILES_MAX = 10
"""Of one sitting: what an imported file holds, each of its forks copies."""


def gathered(mutants: Iterable[Mutant]) -> list[list[Mutant]]:
    """Those whose tests stand in the same files together, in parts; the largest first.

    Files that few rows mean share a sitting.
    """
    by_files = defaultdict[tuple[str, ...], list[Mutant]](list)
    for mutant in mutants:
        by_files[_files((mutant,))].append(mutant)
    parts = [
        rows[first : first + ROWS_MAX]
        for rows in by_files.values()
        for first in range(0, len(rows), ROWS_MAX)
    ]
    shared: list[list[Mutant]] = []
    for part in sorted(parts, key=len, reverse=True):
        last = shared[-1] if shared else part
        room = len(last) + len(part) <= ROWS_MAX
        if last is not part and room and len(_files([*last, *part])) <= FILES_MAX:
            last.extend(part)
        else:
            shared.append(part)
    return sorted(shared, key=len, reverse=True)


def start(mutants: Sequence[Mutant], folder: Path, limit_s: float) -> int:
    """Fork a sitting; its pid.

    When that has ended, `outcomes(mutants, folder)` says the rest, and nothing that it has started
    is alive. SIGTERM ends it early.

    Args:
        mutants: tried one after the other; their tests stand in the same files.
        folder: an empty one, for this sitting.
        limit_s: how long each trial may take.
    """
    pid = os.fork()
    if pid == 0:
        _sit(mutants, folder, limit_s)
    return pid


def outcomes(
    mutants: Sequence[Mutant], folder: Path, *, again: bool = True
) -> Iterator[tuple[Mutant, Outcome]]:
    """What the sitting in `folder` has found; `apart` where it has come to nothing.

    Args:
        mutants: those of the sitting.
        folder: its folder.
        again: whether what has survived here, or hangs, is `apart` as well.
    """
    for number, mutant in enumerate(mutants):
        place = folder / str(number)
        found = trial.outcome(place) if (place / trial.RESULT).exists() else Outcome("apart")
        good = found.verdict == ("killed" if mutant.hunks else "survived")
        stands = not again and found.verdict in {"survived", "hung"}
        yield mutant, found if good or stands else Outcome("apart")


def _sit(mutants: Sequence[Mutant], folder: Path, limit_s: float) -> NoReturn:
    try:
        trial.settle_in(folder)
        options = [*QUIET, "-s", f"--basetemp={folder / 't'}"]
        pytest.main([*options, *_files(mutants)], plugins=[_Sitting(mutants, folder, limit_s)])
    finally:
        os._exit(0)


def _files(mutants: Iterable[Mutant]) -> tuple[str, ...]:
    killers = (killer for mutant in mutants for killer in mutant.killers)
    return tuple(sorted({killer.partition("::")[0] for killer in killers}))


class _Sitting:
    """A pytest plugin: what is collected is not run, but tried."""

    def __init__(self, mutants: Sequence[Mutant], folder: Path, limit_s: float) -> None:
        self._mutants, self._folder, self._limit_s = mutants, folder, limit_s
        self._own, self._keeper = os.getpid(), 0
        signal.signal(signal.SIGTERM, self._end)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Try each mutant in a fork."""

        def body(mutant: Mutant, _: Path, end: End) -> NoReturn:
            _run(session, mutant, end)

        gc.freeze()  # a fork that collects garbage would copy every page of it
        for number, mutant in enumerate(self._mutants):
            place = self._folder / str(number)
            place.mkdir()
            self._keeper = trial.start(mutant, body, place, self._limit_s, collected=True)
            os.waitpid(self._keeper, 0)
            self._keeper = 0
        return True

    def _end(self, *_: object) -> None:
        if os.getpid() == self._own:
            if self._keeper:
                os.kill(self._keeper, signal.SIGTERM)
                os.waitpid(self._keeper, 0)
            os._exit(1)


def _run(session: pytest.Session, mutant: Mutant, end: End) -> NoReturn:
    """Run the collected tests that the row names, until one notices."""
    witness = Witness(end)
    session.config.pluginmanager.register(witness)
    items = [item for killer in mutant.killers for item in session.items if _means(killer, item)]
    for item, following in zip(items, [*items[1:], None], strict=True):
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
    end(Outcome("survived" if witness.ran else "apart", seconds=witness.seconds))


def _means(killer: str, item: pytest.Item) -> bool:
    rest = item.nodeid.removeprefix(killer)
    return rest != item.nodeid and (not rest or rest.startswith(("[", "::", "/")))
