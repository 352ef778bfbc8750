"""Choice, catalog and sharing together, against a server on loopback."""

import asyncio

import pytest

from tenure.clock import SystemClock
from tenure.config import Config, ModelConfig, ProviderConfig, StarterConfig, find_home
from tenure.conversation import Message
from tenure.errors import BadValue, ConfigError, ModelError, ModelUnauthorized
from tenure.logs import Redactor
from tenure.models.base import ModelRequest, TextDelta
from tenure.models.credentials import Credentials
from tenure.models.picker import CatalogPicker
from tenure.models.starter.weights import SMOL
from tenure.processes.spawn import Spawner
from tenure.testing.model_server import models, refuse, say

KEY = "sk-secret-0123456789"


@pytest.fixture
def picker(tmp_path, scope):
    def make(environ=None, config=None, flag=""):
        environ = {"HOME": str(tmp_path), **(environ or {})}
        home = find_home(environ)
        home.prepare()
        redactor = Redactor()
        made = CatalogPicker(
            scope,
            home=home,
            config=lambda: config or Config(),
            environ=environ,
            spawner=Spawner(instance="t", environ=environ, clock=SystemClock()),
            flag=flag,
            redactor=redactor,
        )
        made.redactor = redactor
        made.home = home
        return made

    return make


async def say_hi(model):
    async with model.stream(ModelRequest("", (Message("user", "hi"),))) as events:
        return "".join([e.text async for e in events if isinstance(e, TextDelta)])


async def test_a_base_url_without_a_name_takes_the_servers_first(picker, scope, server):
    server.by_path["/v1/models"] = models("first", "second")
    server.answer(say("hello"))
    made = picker({"OPENAI_BASE_URL": server.base_url})
    picked = await made.pick("", scope)
    assert (picked.model.ref, picked.reason) == ("openai:first", "OPENAI_BASE_URL is set")
    assert await say_hi(picked.model) == "hello"
    assert "authorization" not in server.requests[-1].headers


async def test_sessions_share_a_provider(picker, scope, server):
    config = Config(providers={"lab": ProviderConfig(server.base_url, "LAB_KEY")})
    made = picker({"LAB_KEY": KEY}, config)
    one, two = scope.child("a"), scope.child("b")
    first = await made.pick("lab:m", one)
    second = await made.pick("lab:n", two)
    server.answer(say("a"), say("b"))
    assert [await say_hi(first.model), await say_hi(second.model)] == ["a", "b"]
    assert server.accepted == 1
    assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"
    assert made.redactor(f"x {KEY}") == "x ***"
    await one.close()
    server.answer(say("c"))
    assert await say_hi(second.model) == "c"


async def test_a_shutdown_ends_the_borrowers_first(picker, scope, server):
    made = picker({"OPENAI_BASE_URL": server.base_url})
    await made.pick("openai:m", scope.child("session"))
    async with asyncio.timeout(12):  # not the 15 s of a provider that waits for its borrowers
        await scope.close()


async def test_a_stored_key_is_used(picker, scope, server):
    made = picker({"OPENAI_BASE_URL": server.base_url})
    Credentials(made.home.credentials).save("openai", KEY)
    picked = await made.pick("openai:m", scope)
    server.answer(say("a"))
    await say_hi(picked.model)
    assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"


async def test_a_missing_key_is_told_before_the_first_prompt(picker, scope):
    with pytest.raises(ModelUnauthorized, match="OPENAI_API_KEY") as caught:
        await picker(flag="openai:m").pick("", scope)
    assert "tenure model login openai" in caught.value.message


async def test_the_starter_without_weights_says_what_to_do(picker, scope):
    made = picker()
    assert await made.ready() == (False, "starter", "the starter model is not downloaded yet")
    with pytest.raises(ModelError, match="tenure model pull"):
        await made.pick("", scope)


async def test_the_starter_goes_by_the_name_of_the_weights_that_are_there(picker, scope, tmp_path):
    own = tmp_path / "mine.gguf"
    own.write_bytes(b"GGUF and more")
    made = picker(config=Config(starter=StarterConfig(gguf=str(own))))
    assert (await made.pick("", scope)).model.ref == "starter:mine"
    with pytest.raises(BadValue, match="starter has no model 'nonsense'"):
        await made.pick("starter:nonsense", scope)


async def test_one_that_only_chats_answers_nobody_who_has_not_named_it(picker, scope):
    made = picker()
    made.home.models.mkdir(parents=True)
    with (made.home.models / SMOL.file).open("wb") as file:
        file.truncate(SMOL.size)
    with pytest.raises(ModelError, match="not on this machine yet"):
        await made.pick("", scope)
    model = (await made.pick(f"starter:{SMOL.name}", scope)).model
    assert (model.ref, model.context_tokens) == (f"starter:{SMOL.name}", SMOL.context_tokens_max)


async def test_scripted_from_a_flag(picker, scope, tmp_path):
    file = tmp_path / "demo.json"
    file.write_text('[{"text": "scripted"}]')
    made = picker(flag=f"scripted:{file}")
    picked = await made.pick("", scope)
    assert await say_hi(picked.model) == "scripted"
    assert await made.ready() == (True, f"scripted:{file}", "given by --model")


async def test_ready_and_options_ask_nobody(picker, server):
    config = Config(
        model=ModelConfig(default="lab:m"),
        providers={"lab": ProviderConfig(server.base_url)},
    )
    made = picker({"GROQ_API_KEY": KEY}, config)
    assert await made.ready() == (True, "lab:m", "[model] default in the configuration")
    options = await made.options()
    assert (options["provider"], options["model"]) == ("lab", "m")
    rows = {row["slug"]: row for row in options["providers"]}
    assert set(rows) == {"groq", "starter", "lab"}
    assert rows["lab"]["is_current"]
    assert rows["lab"]["models"] == ["m"]
    assert KEY not in str(options)
    assert server.requests == []


@pytest.mark.parametrize(
    ("flag", "ok", "words"),
    [
        ("openai:m", False, "needs a key"),
        ("nonsense:m", False, "no known provider"),
        ("ollama:m", True, "--model"),
    ],
)
async def test_ready_says_why_not(picker, flag, ok, words):
    ready, _, reason = await picker(flag=flag).ready()
    assert ready is ok
    assert words in reason


async def test_a_provider_without_an_address(picker, scope):
    config = Config(providers={"lab": ProviderConfig()})
    with pytest.raises(ConfigError, match=r"\[providers\.lab\] needs a base_url"):
        await picker(config=config).pick("lab:m", scope)
    with pytest.raises(BadValue):
        await picker().pick("lab:m", scope)


async def test_a_login_is_proved_by_a_real_call(picker, server):
    server.by_path["/v1/models"] = models("m1")
    made = picker({"OPENAI_BASE_URL": server.base_url})
    server.answer(say("ok"))
    assert await made.catalog.prove("openai", KEY) == "openai:m1"
    assert server.requests[-1].headers["authorization"] == f"Bearer {KEY}"
    server.answer(refuse(401, f"bad {KEY}"))
    with pytest.raises(ModelUnauthorized) as caught:
        await made.catalog.prove("openai", KEY)
    assert "secret" not in caught.value.message


async def test_another_address_is_another_provider_and_the_old_one_stays_for_who_has_it(
    tmp_path, scope, server
):
    home = find_home({"HOME": str(tmp_path)})
    home.prepare()
    config = Config(providers={"lab": ProviderConfig(server.base_url)})
    made = CatalogPicker(
        scope,
        home=home,
        config=lambda: config,
        environ={},
        spawner=Spawner(instance="t", environ={}, clock=SystemClock()),
        flag="",
        redactor=Redactor(),
    )
    before, after = scope.child("before"), scope.child("after")
    old = await made.pick("lab:m", before)
    same = await made.pick("lab:m", after)
    assert len(made._providers) == 1
    config = Config(providers={"lab": ProviderConfig(f"{server.base_url}/v2")})
    new = await made.pick("lab:m", after)
    assert len(made._providers) == 2 and old.model.ref == new.model.ref == same.model.ref
    server.answer(say("from the old one"))
    assert await say_hi(old.model) == "from the old one"
    server.answer(say("from the new one"))
    assert await say_hi(new.model) == "from the new one"
    paths = [request.path for request in server.requests]
    assert paths[0] != paths[1] and "/v2/" in paths[1]
    Credentials(home.credentials).save("lab", KEY)
    await made.pick("lab:m", after)
    assert len(made._providers) == 3
    assert KEY not in repr(list(made._providers._slots)) and KEY not in str(scope.census())


async def test_the_starter_is_shared_with_the_elder_where_it_is_configured_alike(tmp_path, scope):
    home = find_home({"HOME": str(tmp_path)})
    home.prepare()
    configs = [Config(), Config(), Config(starter=StarterConfig(threads=3))]
    spawner = Spawner(instance="t", environ={}, clock=SystemClock())

    def picker(config, elder=None):
        return CatalogPicker(
            scope.child("profile"), home=home, config=lambda: config, environ={}, spawner=spawner,
            flag="", redactor=Redactor(), elder=elder,
        )  # fmt: skip

    elder = picker(configs[0])
    assert picker(configs[1], elder)._sharing(elder._made("starter")) is elder
    other = picker(configs[2], elder)
    assert other._sharing(other._made("starter")) is other
    assert other._sharing(other._made("openai")) is other
