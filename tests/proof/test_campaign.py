"""A campaign: everybody gets a share, what is done is kept, a violation makes it fail."""

from __future__ import annotations

import argparse

import pytest

from proof import campaign, full, quick
from proof.campaign import Done, Piece, State, pieces, table_of
from proof.scenarios import all_scenarios


def test_every_scenario_gets_its_share():
    shared = {}
    for piece in pieces(50_000, 0):
        shared[piece.scenario] = shared.get(piece.scenario, 0) + piece.schedules
    assert set(shared) == set(all_scenarios())
    assert sum(shared.values()) >= 50_000
    assert min(shared.values()) >= 15


def test_rounds_have_seeds_of_their_own():
    found = pieces(10_000, 5, rounds=3)
    assert len(found) == len(set(found))
    assert {piece.seed for piece in found} == {5, 6, 7}


def test_a_table_adds_up():
    one = Done("two-closers", 10, 100, 0.5, True, {})
    other = Done("two-closers", 5, 50, 0.5, False, {"V1: 3 left": "two-closers~e0d"})
    table = table_of([one, other, other])
    assert (table.schedules, table.steps, table.least) == (20, 200, 20)
    assert table.by_subject == {"lifecycle": [1, 20]}
    assert list(table.found.values()) == [("V1: 3 left", "two-closers~e0d")]
    assert any("replay two-closers~e0d" in line for line in campaign.lines_of(table))


def test_what_is_done_is_kept_and_a_torn_line_is_not(tmp_path):
    piece, done = Piece("two-closers", 3, 1), Done("two-closers", 3, 30, 0.1, False, {})
    State(tmp_path / "s").keep(piece, done)
    with (tmp_path / "s").open("a") as file:
        file.write('[["two-cl')
    assert State(tmp_path / "s").done == {piece: done}


@pytest.fixture
def few(monkeypatch):
    """Three scenarios instead of all."""
    names = ("two-closers", "close-against-build", "submit+close")
    found = {name: all_scenarios()[name] for name in names}
    monkeypatch.setattr(campaign, "all_scenarios", lambda: found)
    monkeypatch.setattr(full, "OPERATIONS", {"create": None})


@pytest.mark.slow
def test_full_goes_on_where_it_was(few, tmp_path, capsys):
    def run(minutes=None):
        args = argparse.Namespace(
            folder=tmp_path, schedules=40, rounds=2, depth=2, seed=1, minutes=minutes
        )
        return full.main(args)

    assert run(minutes=-1.0) == 3, "it was to stop at once"
    assert run() == 0
    assert "Full proof" in (tmp_path / "full-40-2-1.md").read_text()
    capsys.readouterr()
    assert run() == 0
    assert "6 pieces are done, 0 to do" in capsys.readouterr().out


@pytest.mark.slow
def test_quick_fails_with_a_token(few, monkeypatch, capsys):
    assert quick.schedules(30, 0) == 0
    broken = Done("two-closers", 3, 30, 0.1, False, {"V2: broken": "two-closers~e0d"})
    monkeypatch.setattr(
        quick, "run_pieces", lambda todo, told: [told(piece, broken) for piece in todo]
    )
    assert quick.schedules(30, 0) == 1
    assert "python -m proof replay two-closers~e0d" in capsys.readouterr().out
