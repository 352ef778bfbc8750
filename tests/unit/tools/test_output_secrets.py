"""Secrets in what a command prints are blanked, however the pieces fall."""

from __future__ import annotations

import itertools

import pytest

from support.examples import given, strategies as st
from tenure.tools.output import Blanker, Capture

TEXT = st.text(alphabet="abS", max_size=60)


@given(TEXT, st.lists(st.integers(0, 60), max_size=8), st.text("ab", min_size=1, max_size=4))
def test_no_cut_lets_one_through(text, cuts, secret):
    raw = text.replace("S", secret).encode()
    places = [0, *sorted(min(cut, len(raw)) for cut in cuts), len(raw)]
    blanker = Blanker((secret,))
    pieces = [raw[a:b] for a, b in itertools.pairwise(places)]
    out = b"".join(blanker.feed(piece) for piece in pieces) + blanker.rest()
    assert secret.encode() not in out
    whole = Blanker((secret,))
    assert len(out) > 0 or not raw
    if secret.encode() not in raw:
        assert out == raw == whole.feed(raw) + whole.rest()


def test_the_longer_of_two_goes_first_and_nothing_else_changes():
    blanker = Blanker(("pass", "password", ""))
    assert blanker.feed(b"a password, a pass, a pas") + blanker.rest() == b"a ***, a ***, a pas"
    assert Blanker(()).feed(b"as it is") == b"as it is"


@pytest.mark.parametrize("size", [10, 100_000])
async def test_neither_shown_nor_kept_nor_spilled(tmp_path, size):
    from tenure.clock import SystemClock
    from tenure.lifecycle.scope import Scope

    secret, shown = "s3cret-value", []

    class Pieces:
        def __init__(self) -> None:
            text = f"begin {secret} " + "x" * size + f" {secret} end\n"
            self.left = [text[i : i + 7].encode() for i in range(0, len(text), 7)]

        async def read(self) -> bytes:
            return self.left.pop(0) if self.left else b""

    capture = Capture(1_000, tmp_path, shown.append, (secret,))
    async with Scope.root("test", SystemClock()) as scope:
        await capture.drain(Pieces(), scope)
        await capture.flush(scope)
    assert "begin *** " in capture.text() and "*** end" in capture.text()
    stored = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert bool(stored) == (size > 1_000)
    for place in (capture.text(), "".join(shown), stored.decode()):
        assert secret not in place
