"""Exit codes: one rule, which the documentation tells."""

from __future__ import annotations

from pathlib import Path

import pytest

from tenure import errors
from tenure.cli.exits import code_of, code_of_turn

WRONG = [
    errors.BadValue, errors.ConfigError, errors.InvalidParams, errors.ModelUnauthorized,
    errors.NotFound, errors.SandboxUnavailable, errors.SessionNotFound, errors.TooLarge,
    errors.Unauthorized,
]  # fmt: skip
OTHERS = [
    errors.Conflict, errors.InternalError, errors.LifecycleError, errors.ModelError,
    errors.ModelOverloaded, errors.Overloaded, errors.ProcessError, errors.SessionBusy,
    errors.StoreFull, errors.TransportError,
]  # fmt: skip


@pytest.mark.parametrize(("kind", "code"), [*((k, 2) for k in WRONG), *((k, 1) for k in OTHERS)])
def test_an_error_ends_a_command_and_a_turn_alike(kind, code):
    assert code_of(kind("why")) == code
    assert code_of_turn({"state": "failed", "code": kind.code}) == code


@pytest.mark.parametrize(("complete", "code"), [
    ({"state": "completed", "denied": 0}, 0),
    ({"state": "completed", "denied": 1}, 3),
    ({"state": "refused", "cause": "denied"}, 3),
    ({"state": "interrupted"}, 130),
    ({"state": "failed"}, 1),
])  # fmt: skip
def test_how_a_turn_ended(complete, code):
    assert code_of_turn(complete) == code


def test_the_documentation_tells_them():
    text = (Path(__file__).parents[3] / "docs" / "operations.md").read_text()
    rows = [line.split("|")[1].strip() for line in text.splitlines() if line.startswith("|")]
    assert [row for row in rows if row.isdecimal()] == ["0", "1", "2", "3", "130"]
