"""Which model, and why."""

import pytest

from tenure.config import Config, ModelConfig, ProviderConfig
from tenure.errors import BadValue
from tenure.models.choice import choose, parse_ref
from tenure.models.directory import base_url_of, listed

LAB = {"lab": ProviderConfig(base_url="http://lab/v1")}
DEFAULT = ModelConfig(default="google:g")

CASES = [
    # config, environment, stored, session, flag -> reference, words of the reason
    (Config(), {}, (), "", "", "starter", "no provider is configured"),
    (Config(), {"OPENAI_API_KEY": "k"}, (), "", "", "openai", "OPENAI_API_KEY is set"),
    (Config(), {"OPENAI_BASE_URL": "http://x/v1"}, (), "", "", "openai", "OPENAI_BASE_URL is set"),
    (
        Config(),
        {"OPENAI_BASE_URL": "https://api.openai.com/v1"},
        (),
        "",
        "",
        "starter",
        "no provider",
    ),
    (Config(), {"ANTHROPIC_API_KEY": "k"}, (), "", "", "anthropic", "ANTHROPIC_API_KEY"),
    (Config(), {"OPENROUTER_API_KEY": "k"}, (), "", "", "openrouter", "OPENROUTER_API_KEY"),
    (Config(), {"GEMINI_API_KEY": "k"}, (), "", "", "google", "GEMINI_API_KEY"),
    (Config(), {"GOOGLE_API_KEY": "k"}, (), "", "", "google", "GOOGLE_API_KEY"),
    (Config(), {"MISTRAL_API_KEY": "k"}, (), "", "", "mistral", "MISTRAL_API_KEY"),
    (Config(), {"GROQ_API_KEY": "k"}, (), "", "", "groq", "GROQ_API_KEY"),
    (Config(), {"AWS_ACCESS_KEY_ID": "k"}, (), "", "", "bedrock", "AWS_ACCESS_KEY_ID"),
    (Config(), {"OLLAMA_HOST": "box"}, (), "", "", "ollama", "OLLAMA_HOST"),
    (Config(), {"OPENAI_API_KEY": ""}, (), "", "", "starter", "no provider"),
    (Config(), {}, ("mistral", "groq"), "", "", "mistral", "a key of Mistral is stored"),
    (Config(), {"GROQ_API_KEY": "k"}, ("mistral",), "", "", "groq", "GROQ_API_KEY"),
    (Config(providers=LAB), {}, (), "", "", "lab", "[providers.lab]"),
    (Config(providers=LAB), {}, ("groq",), "", "", "groq", "stored"),
    (Config(providers={"k": ProviderConfig("http://x", "K_KEY")}), {}, (), "", "", "starter", ""),
    (
        Config(providers={"k": ProviderConfig("http://x", "K_KEY")}),
        {"K_KEY": "1"},
        (),
        "",
        "",
        "k",
        "",
    ),
    (Config(model=DEFAULT), {"OPENAI_API_KEY": "k"}, (), "", "", "google:g", "configuration"),
    (
        Config(model=DEFAULT),
        {"OPENAI_API_KEY": "k"},
        (),
        "",
        "ollama:l:8b",
        "ollama:l:8b",
        "--model",
    ),
    (Config(model=DEFAULT), {}, (), "lab", "ollama:l", "lab", "chosen for this session"),
]


@pytest.mark.parametrize("case", CASES)
def test_the_order(case):
    config, environ, stored, session, flag, ref, words = case
    if session == "lab":
        config = Config(model=config.model, providers=LAB)
    choice = choose(config, environ, stored, session=session, flag=flag)
    assert choice.ref == ref
    assert words in choice.reason


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("opnai:gpt", "did you mean openai"),
        ("Anthropic:x", "did you mean anthropic"),
        ("gpt-7", "openai:gpt-7"),
        ("claude-x", "anthropic:claude-x"),
        ("zzz:model", "providers: openai"),
        ("labb:x", "did you mean lab"),
    ],
)
def test_an_unknown_provider_is_told_with_the_nearest(text, words):
    with pytest.raises(BadValue) as caught:
        parse_ref(text, Config(providers=LAB))
    assert words in caught.value.message


def test_references_are_split_at_the_first_colon():
    assert parse_ref(" ollama:llama3:8b ", Config()) == ("ollama", "llama3:8b")
    assert parse_ref("openai", Config()) == ("openai", "")


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("", "http://127.0.0.1:11434/v1"),
        ("box", "http://box:11434/v1"),
        ("0.0.0.0:99", "http://127.0.0.1:99/v1"),
        ("https://box:1/", "https://box:1/v1"),
        ("[::1]", "http://[::1]:11434/v1"),
    ],
)
def test_the_host_of_ollama(host, url):
    assert base_url_of(listed("ollama", {}), {"OLLAMA_HOST": host} if host else {}) == url


def test_configuration_overrides_a_known_provider():
    entry = listed("openai", {"openai": ProviderConfig("http://proxy/v1", "PROXY_KEY")})
    environ = {"OPENAI_BASE_URL": "http://other/v1"}
    assert (base_url_of(entry, environ), entry.key_envs) == ("http://proxy/v1", ("PROXY_KEY",))
