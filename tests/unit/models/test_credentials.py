"""Stored keys: private, whole, and never in a message."""

import stat

import pytest

from tenure.errors import ConfigError
from tenure.models.credentials import Credentials

KEY = "sk-secret-0123456789"


def test_save_load_remove(tmp_path):
    store = Credentials(tmp_path / "home" / "credentials.json")
    assert store.load() == {}
    store.save("openai", KEY)
    store.save("groq", "other")
    assert store.load() == {"openai": KEY, "groq": "other"}
    assert stat.S_IMODE(store.path.stat().st_mode) == 0o600
    assert store.remove("openai")
    assert not store.remove("openai")
    assert store.load() == {"groq": "other"}
    assert [p.name for p in store.path.parent.iterdir()] == ["credentials.json"]


def test_the_mode_is_private_whatever_it_was(tmp_path):
    store = Credentials(tmp_path / "credentials.json")
    store.path.write_text("{}")
    store.path.chmod(0o644)
    store.save("openai", KEY)
    assert stat.S_IMODE(store.path.stat().st_mode) == 0o600


@pytest.mark.parametrize("key", ["", "two words", "tab\t", "schlüssel", "x" * 5_000, "a\nb"])
def test_what_cannot_be_a_key_is_refused(tmp_path, key):
    store = Credentials(tmp_path / "credentials.json")
    with pytest.raises(ConfigError) as caught:
        store.save("openai", key)
    assert not key or key not in caught.value.message
    assert not store.path.exists()


@pytest.mark.parametrize("content", ["{", "[]", '{"openai": "bare"}'])
def test_a_damaged_file_is_one_sentence(tmp_path, content):
    store = Credentials(tmp_path / "credentials.json")
    store.path.write_text(content)
    with pytest.raises(ConfigError, match="is damaged; remove it"):
        store.load()


def test_a_place_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    store = Credentials(tmp_path / "file" / "credentials.json")
    with pytest.raises(ConfigError, match="cannot be"):
        store.save("openai", KEY)
