"""What makes no sense in a configuration is refused in a sentence that names line and key."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from tenure.browser.lending import Browsers
from tenure.clock import SystemClock
from tenure.config import (
    Config,
    Home,
    check_files,
    examine,
    load,
    load_profile,
    parse,
)
from tenure.errors import BadValue, ConfigError
from tenure.lifecycle.scope import Scope
from tenure.sense import TOOLS, line_of, mended, mistake, problems
from tenure.testing.browser import found_for_tests
from tenure.tools.registry import tools_for
from tenure.tools.web.reach import Reach

PATH = Path("config.toml")
EVERYTHING = Reach(
    {}, browsers=Browsers(Scope.root("browsers", SystemClock()), None, found_for_tests)
)
SENSELESS = [
    ("[web]\nallow = ['http://x']", "line 2: web.allow[0] is no address, network or host"),
    ("[web]\nallow = ['10.1.0.0/99']", "line 2: web.allow[0] is no address, network or host"),
    ("[web]\nallow = ['corp.example', '300.1.1.1']", "line 2: web.allow[1] is no address"),
    ("[web]\nallow = ['wiki.local/8']", "web.allow[0] is no address"),
    ("[web]\nallow = ['wiki.local:99999']", "web.allow[0] is no address"),
    ("[web]\nallow = ['wiki.local:" + "9" * 5000 + "']", "web.allow[0] is no address"),
    ("[web]\nallow = ['10.1.1.1:0']", "web.allow[0] is no address"),
    ("[sandbox]\nread = ['data']", "line 2: sandbox.read[0] is no absolute path; begin it with"),
    ("[sandbox]\nwrite = ['/srv/x', '../y']", "sandbox.write[1] is no absolute path"),
    ("[sandbox]\nwrite = ['/etc']", "line 2: sandbox.write[0] would let commands change the sys"),
    ("[sandbox]\nwrite = ['/srv/..']", "sandbox.write[0] would let commands change the system"),
    ("[sandbox]\nwrite = ['//usr/local/']", "sandbox.write[0] would let commands change"),
    ("[web]\nproxy = 'socks5://x'", "web.proxy is no address"),
    ("[web.search]\nprovider = 'searxng'", "web.search.url is missing"),
    ("[web.search]\nprovider = 'gopher'", "line 2: web.search.provider has a wrong value"),
    ("[web]\ntimeout_s = 0", "web.timeout_s has a wrong value"),
    ("[limits]\nqueue_max = -1", "line 2: limits.queue_max is -1; it must be 0 or more."),
    ("[limits]\n\nsteps_max = 0", "line 3: limits.steps_max is 0; it must be 1 or more."),
    ("[limits]\ntool_timeout_s = 0", "limits.tool_timeout_s is 0.0; it must be more than 0."),
    ("[limits]\ntool_timeout_s = nan", "it must be more than 0"),
    ("[approvals]\ntimeout_s = inf", "approvals.timeout_s is inf"),
    ("[server]\nport = 70000", "line 2: server.port is 70000; it is a number from 0 to 65535."),
    ("server.port = -1", "line 1: server.port is -1"),
    ("[server]\nhost = 'http://x'", "server.host is no address"),
    ("[server]\nallow_hosts = ['https://a.b']", "server.allow_hosts[0] is no name of a host"),
    ("[server]\nallow_origins = ['a.b']", "server.allow_origins[0] is no origin"),
    ("[providers.lab]\nbase_url = 'localhost:80'", "line 2: providers.lab.base_url is no address"),
    ("[providers.lab]\nbase_url = 'http://'", "providers.lab.base_url is no address"),
    ("[providers.lab]\nbase_url = 'http://h:99999/v1'", "providers.lab.base_url is no address"),
    ("[providers.lab]\nbase_url = 'http://u:p@h/v1'", "providers.lab.base_url is no address"),
    ("[providers.lab]\nbase_url = 'http://a b/'", "providers.lab.base_url is no address"),
    ("[providers.lab]\napi_key_env = 'sk-1-2'", "is no name of a variable"),
    ("[providers.lab]\ncontext_tokens = -5", "providers.lab.context_tokens is -5"),
    ("[providers.lab]\nbase_url = 3", "line 2: providers.lab.base_url has a wrong value: Expected"),
    ("[providers]\n'a b' = {}", "providers.a b cannot be a name"),
    ("[model]\ndefault = ':gpt'", "model.default names no provider"),
    ("[[approvals.rules]]\ndecision = 'deny'\ntool = 'shel'", "did you mean shell?"),
    ("[[approvals.rules]]\ndecision = 'ask'\n[[approvals.rules]]\ndecision = 'deny'\ntool = 'zz*'",
     "line 5: approvals.rules[1].tool 'zz*' names no tool; tools: "),
    ("[[approvals.rules]]\ndecision = 'deny'\ntool = 'read'\ncommand = 'rm *'",
     "line 4: approvals.rules[0].command is a command, but the rule is not about shell."),
    ("[[approvals.rules]]\ndecision = 'maybe'", "line 2: approvals.rules[0].decision has a wrong"),
    ("[[approvals.rules]]\ntool = 'read'",
     "line 1: approvals.rules[0].decision is missing; use one of allow, ask, deny."),
    ("[web.search]\nprovider = 'gopher'",
     "'gopher'; use one of ddgs, searxng, brave, tavily, off."),
    ("limits = 3", "line 1: limits has a wrong value"),
    ("providers = 3", "line 1: providers has a wrong value"),
]  # fmt: skip


def test_one_mistake_hides_no_other():
    text = """
        [[approvals.rules]]
        decision = "perhaps"
        tool = "fly"
        [[approvals.rules]]
        tool = "swim"
        [web.search]
        provider = "gopher"
        results_max = 99
        [server]
        allow_hosts = [3]
        port = 70000
        [limits]
        queue_max = "3"
        steps_max = 0
        """
    loaded, wrong = examine(text, PATH)
    assert loaded is None
    assert [sentence.split()[3] for sentence in wrong] == [
        "approvals.rules[0].decision", "approvals.rules[0].tool", "approvals.rules[1].decision",
        "approvals.rules[1].tool", "web.search.provider", "web.search.results_max",
        "server.allow_hosts[0]", "server.port", "limits.queue_max", "limits.steps_max",
    ]  # fmt: skip


class _Item(msgspec.Struct):
    name: str


class _Lists(msgspec.Struct):
    items: list[_Item] = []
    other: int = 0


def test_what_is_missing_and_has_no_choices_goes_with_its_list():
    raw = {"items": [{"name": "a"}, {}], "other": 1}
    with pytest.raises(msgspec.ValidationError) as caught:
        msgspec.convert(raw, _Lists)
    found = mistake(caught.value, _Lists)
    assert found == ("items[1].name", "is missing.")
    assert mended(raw, found.key, _Lists) == {"other": 1}
    assert len(raw["items"]) == 2, "the original stays"


@pytest.mark.parametrize(("text", "told"), SENSELESS)
def test_one_sentence_with_line_and_key(text, told):
    with pytest.raises(ConfigError) as caught:
        parse(text, PATH)
    assert told in caught.value.message and "\n" not in caught.value.message
    assert caught.value.message.startswith("config.toml line ")
    _, wrong = examine(text, PATH)
    assert len(wrong) == 1


def test_everything_that_is_wrong_is_told_at_once():
    text = "[limits]\nqueue_max = -1\nsteps_max = 'x'\n[providers.a]\nbase_url = 1\n[server]\nport = -2\n"
    loaded, wrong = examine(text, PATH)
    assert loaded is None and [w.split()[2] for w in wrong] == ["2:", "3:", "5:", "7:"]
    with pytest.raises(ConfigError, match=r"\(And 3 more; see `tenure config check`\.\)"):
        parse(text, PATH)


@pytest.mark.parametrize("text", [
    "[providers.lab]\nbase_url = 'http://[::1]:8000/v1'\napi_key_env = 'LAB_KEY'",
    "[server]\nhost = '::1'\nallow_hosts = ['a.b', '[::1]']\nallow_origins = ['https://a.b']",
    "[[approvals.rules]]\ndecision = 'allow'\ntool = 'mcp__github__*'",
    "[[approvals.rules]]\ndecision = 'allow'\ntool = '*'\ncommand = 'git status*'",
    "[limits]\nqueue_max = 0\nbackground_max = 0\nidle_s = 0", "",
    "[sandbox]\nread = ['/etc/ssl', '~/x']\nwrite = ['~/.cache', '/srv/data', '/etcetera']",
    "[web]\nallow = ['10.0.0.0/8', '10.0.0.1:8080', '[fd00::1]', '8.8.8.8', '[::1]:80', 'fd00::/8', '*.corp.test', 'wiki:8080', '*']",
    "[web]\nproxy = 'http://p.test:3128'\n[web.search]\nprovider = 'searxng'\nurl = 'http://s.test'",
])  # fmt: skip
def test_what_makes_sense_is_taken(text):
    assert parse(text, PATH).config is not None


def test_the_defaults_make_sense():
    assert list(problems(Config())) == []


def test_the_tools_that_a_rule_may_name_are_the_ones_there_are():
    assert sorted(TOOLS) == sorted(tool.name for tool in tools_for(Config(), False, EVERYTHING))


def test_lines_are_those_of_the_key_or_of_what_it_stands_in():
    text = '# x\n[a]\nb.c = 1\n[a."d e"]\nf = 1\n[[g]]\nh = 1\n[[g]] # more\ni = {j = 1}\n'
    wanted = {"a.b.c": 3, "a.d e.f": 5, "g[0].h": 7, "g[1]": 8, "g[1].i.j": 9, "a.z": 2, "zz": 0}
    assert {key: line_of(text, key) for key in wanted} == wanted


def test_a_profile_stands_over_the_home_and_takes_away_no_denial(tmp_path):
    home = Home(tmp_path, tmp_path)
    own = home.profile("office")
    own.prepare()
    home.config.write_text(
        '[limits]\nqueue_max = 3\nsteps_max = 4\n[providers.a]\nbase_url = "http://a"\n'
        '[[approvals.rules]]\ndecision = "deny"\ntool = "shell"\n'
    )
    own.config.write_text(
        '[limits]\nsteps_max = 9\n[providers.b]\nbase_url = "http://b"\n[server]\nport = 1\n'
        '[[approvals.rules]]\ndecision = "allow"\ntool = "*"\n'
    )
    loaded = load_profile(home, "office")
    config = loaded.config
    assert (config.limits.queue_max, config.limits.steps_max) == (3, 9)
    assert set(config.providers) == {"a", "b"}
    assert [rule.decision for rule in config.approvals.rules] == ["allow", "deny"]
    assert config.server == Config().server and "server counts in" in loaded.warnings[0]
    assert load_profile(home, "default").config == load(home).config
    own.config.write_text("[limits]\nsteps_max = -1\n")
    with pytest.raises(ConfigError, match=r"profiles/office/config\.toml line 2"):
        load_profile(home, "office")
    home.config.write_text("[limits]\nqueue_max = -1\n")
    assert [str(tmp_path / "profiles") in w for w in check_files(home, "office")] == [False, True]
    for name in ("../x", "", "A"):
        with pytest.raises(BadValue):
            home.profile(name)
