"""The provider's own words, and what must not be in them."""

import pytest

from tenure.models.failures import WORDS_MAX, Origin, cleaned, from_status, words_of


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b'{"error": {"message": "m", "type": "t"}}', "m"),
        (b'{"error": "m"}', "m"),
        (b'{"message": "m"}', "m"),
        (b'{"detail": [{"msg": "m"}]}', "m"),
        (b'[{"error": {"message": "m"}}]', "m"),
        (b"<html><head><title>Bad\n gateway</title></head>", "Bad gateway"),
        (b"<html><body>x</body></html>", ""),
        (b"plain words", "plain words"),
        (b"", ""),
        (b"\xff\xfe", "��"),
        (b"[]", ""),
        (b"3", ""),
    ],
)
def test_words_are_found_in_every_form(body, words):
    assert words_of(body) == words


def test_secrets_and_what_looks_like_a_key_are_blanked():
    assert cleaned("no hunter2hunter2 here", ("hunter2hunter2", "")) == "no … here"
    assert cleaned("bad key sk-proj-abc123456789 given") == "bad key … given"
    assert len(cleaned("x" * 5_000)) == WORDS_MAX
    assert "hunter2" not in repr(Origin("lab", secrets=("hunter2",)))


def test_the_hint_of_the_provider_is_kept():
    error = from_status(Origin("lab", "http://x", "KEY"), 429, "Slow down.", retry_after_s=3)
    assert error.retry_after_s == 3
    assert error.message == (
        "lab (http://x) asks to slow down (HTTP 429): Slow down. It asks to wait 3 s. "
        "Try again later or choose another model."
    )
