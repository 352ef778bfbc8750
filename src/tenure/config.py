"""Configuration and environment: the only module that reads either.

One TOML file, ``config.toml`` in the home; every key has a default. An unknown key is a warning
with the nearest known name, a wrong value is a `ConfigError`. The environment is read once into a
plain mapping and passed on as an argument.
"""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from tenure.errors import ConfigError
from tenure.ids import checked_name
from tenure.paths import named
from tenure.sense import Problem, line_of, mended, mistake, problems
from tenure.settings import (
    BrowserConfig,
    CheckpointsConfig,
    DelegationConfig,
    HooksConfig,
    MemoryConfig,
    RetentionConfig,
    SandboxConfig,
    SkillsConfig,
    WebConfig,
)

ENV_HOME = "TENURE_HOME"
DEFAULT_PROFILE = "default"
"""The profile that the home itself is."""


class ModelConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=False):
    """``[model]``: which model a session uses unless it says otherwise."""

    default: str = ""
    """A reference ``provider:name``; empty means: choose (see docs/operations.md)."""
    context_tokens: int = 0
    """Overrides the context window; 0 means: ask the provider, else a safe default."""


class ProviderConfig(msgspec.Struct, frozen=True):
    """``[providers.NAME]``: an OpenAI-compatible endpoint under a name of your choice."""

    base_url: str = ""
    api_key_env: str = ""
    """The environment variable that holds the key; a key itself never stands in this file."""
    context_tokens: int = 0


class StarterConfig(msgspec.Struct, frozen=True):
    """``[starter]``: the embedded model."""

    gguf: str = ""
    """A GGUF file of yours instead of the default weights."""
    idle_s: float = 600.0
    threads: int = 0
    """0 means: the machine's cores."""
    context_tokens: int = 8192
    start_timeout_s: float = 120.0


class ApprovalRule(msgspec.Struct, frozen=True):
    """``[[approvals.rules]]``: what a tool may do without asking."""

    decision: Literal["allow", "ask", "deny"]
    tool: str = "*"
    """A tool's name or a glob over names."""
    command: str = ""
    """For shell: a glob over one parsed simple command ("git status*")."""
    path: str = ""
    """For file tools: a glob over the path below the working directory."""
    host: str = ""
    """For tools of the web: a glob over the host of a URL (``*.example.org``)."""


class ApprovalsConfig(msgspec.Struct, frozen=True):
    """``[approvals]``: the rules, and how long a question waits."""

    mode: Literal["auto", "ask"] = "auto"
    """auto: in a sandbox that confines it, nothing asks but what leaves it."""
    rules: tuple[ApprovalRule, ...] = ()
    timeout_s: float = 600.0


class ServerConfig(msgspec.Struct, frozen=True):
    """``[server]``: where the gateway listens and whom it lets in."""

    host: str = "127.0.0.1"
    port: int = 9121
    allow_hosts: tuple[str, ...] = ()
    allow_origins: tuple[str, ...] = ()
    shutdown_s: Annotated[float, msgspec.Meta(ge=2.0, le=3600.0)] = 20.0
    """All of a graceful stop; see shutdown.py for its phases."""
    lease_s: Annotated[float, msgspec.Meta(ge=0.5, le=3600.0)] = 120.0
    """How long the home stays ours without a sign of life; renewed twice in that time."""


class RecoveryConfig(msgspec.Struct, frozen=True):
    """``[recovery]``: what becomes of turns that a stop or a crash has cut off."""

    continue_turns: bool = True
    max_age_s: float = 3600.0
    """A turn that was cut off longer ago than this does not go on."""
    attempts_max: int = 3
    """How often a turn is taken up again; then it is quarantined."""


class LimitsConfig(msgspec.Struct, frozen=True):
    """``[limits]``: what is bounded, and by how much."""

    queue_max: int = 16
    """Prompts that may wait behind a running turn, per session."""
    steps_max: int = 50
    """Model calls in one turn."""
    repeat_max: int = 3
    """Times the same call may give the same result before the turn ends."""
    tool_output_bytes_max: int = 32_768
    """Bytes of one tool result that go to the model (head and tail are kept)."""
    tool_timeout_s: float = 120.0
    sessions_max: int = 20_000
    """Sessions that are open at once; one more is refused."""
    loaded_max: int = 1_000
    """Sessions in memory; over it those that nobody uses are unloaded, the longest unused first."""
    history_mib: int = 256  # of history in memory, all together; over it the longest unused rest
    orphan_grace_s: float = 120.0
    """Seconds without any client before a session may be unloaded; sleep does not count."""
    idle_s: float = 1_800.0
    """Seconds since the last work in it before an unattached session is unloaded."""
    background_max: int = 16
    """Background processes per session."""
    session_memory_mib: int = 0
    """Memory of a session's processes; over it the largest ends. 0: 3/4 of the machine's."""
    session_processes: int = 512  # of a session, at one time; 0: any number
    session_open_files: int = 8_192
    """Files that each process of a session may have open. 0: as many as the gateway's may."""
    session_disk_mib: int = 20_480
    """What a session's own folders hold, and each file that its processes write. 0: any."""


class Config(msgspec.Struct, frozen=True):
    """Everything that can be configured."""

    model: ModelConfig = ModelConfig()
    providers: dict[str, ProviderConfig] = {}
    starter: StarterConfig = StarterConfig()
    approvals: ApprovalsConfig = ApprovalsConfig()
    server: ServerConfig = ServerConfig()
    limits: LimitsConfig = LimitsConfig()
    recovery: RecoveryConfig = RecoveryConfig()
    checkpoints: CheckpointsConfig = CheckpointsConfig()
    retention: RetentionConfig = RetentionConfig()
    hooks: HooksConfig = HooksConfig()
    web: WebConfig = WebConfig()
    browser: BrowserConfig = BrowserConfig()
    sandbox: SandboxConfig = SandboxConfig()
    delegation: DelegationConfig = DelegationConfig()
    skills: SkillsConfig = SkillsConfig()
    memory: MemoryConfig = MemoryConfig()
    log_level: Literal["debug", "info", "warning", "error"] = "info"


class Loaded(msgspec.Struct, frozen=True):
    """A configuration with where it came from and what was odd about it."""

    config: Config
    path: Path
    exists: bool
    warnings: tuple[str, ...] = ()


class Home:
    """The folder that holds everything of one gateway, and the names inside it."""

    __slots__ = ("cache", "root")

    def __init__(self, root: Path, cache: Path) -> None:
        self.root = root
        self.cache = cache

    @property
    def config(self) -> Path:
        """The TOML file."""
        return self.root / "config.toml"

    @property
    def token(self) -> Path:
        """The access token (0600)."""
        return self.root / "token"

    @property
    def gateway(self) -> Path:
        """Identity and URL of the running gateway (0600 JSON)."""
        return self.root / "gateway.json"

    @property
    def lock(self) -> Path:
        """Locked by the process that owns this home."""
        return self.root / "lock"

    @property
    def database(self) -> Path:
        """The SQLite file; touched through the database library only."""
        return self.root / "tenure.db"

    @property
    def backups(self) -> Path:
        """Copies made before migrations."""
        return self.root / "backups"

    @property
    def logs(self) -> Path:
        """Rotating log files (0600)."""
        return self.root / "logs"

    @property
    def credentials(self) -> Path:
        """Provider keys given by ``tenure model login`` (0600 JSON)."""
        return self.root / "credentials.json"

    @property
    def search_keys(self) -> Path:
        """Keys of search providers given by ``tenure web login`` (0600 JSON)."""
        return self.root / "search-keys.json"

    @property
    def grants(self) -> Path:
        """What somebody allowed "always" (0600 JSON)."""
        return self.root / "grants.json"

    @property
    def profiles(self) -> Path:
        """A folder for each further profile."""
        return self.root / "profiles"

    @property
    def used_profile(self) -> Path:
        """Names the profile that commands use unless they say otherwise."""
        return self.root / "profile"

    def profile(self, name: str) -> Home:
        """The part of the home that belongs to a profile: its database, keys, grants and defaults.

        Lock, token and log stay those of the home. The default profile is the home itself.

        Raises:
            BadValue: that is no name, so nothing outside `profiles` can be reached.
        """
        if name == DEFAULT_PROFILE:
            return self
        return Home(self.profiles / checked_name(name, "profile"), self.cache)

    @property
    def spill(self) -> Path:
        """Whole outputs of tools, one folder per session."""
        return self.root / "spill"

    @property
    def uploads(self) -> Path:
        """Files that came with prompts, by their digest (0700)."""
        return self.root / "uploads"

    @property
    def checkpoints(self) -> Path:
        """What folders held before turns changed them (0700)."""
        return self.root / "checkpoints"

    @property
    def models(self) -> Path:
        """Weights of the starter model."""
        return self.cache / "models"

    def prepare(self) -> None:
        """Create the home (0700).

        Raises:
            ConfigError: it cannot be created or written.
        """
        try:
            self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not os.access(self.root, os.R_OK | os.W_OK | os.X_OK):
                raise PermissionError(13, "not readable and writable")
        except OSError as exc:
            raise ConfigError(
                f"The home {self.root} cannot be used ({exc.strerror or exc}); "
                f"make it writable or set {ENV_HOME} to another folder."
            ) from None


def read_environment() -> dict[str, str]:
    """A copy of the process environment, read once at the edge and passed on."""
    return dict(os.environ)


def find_home(environ: Mapping[str, str], override: str | None = None) -> Home:
    """The home named by `override`, else ``TENURE_HOME``, else the XDG data directory.

    Raises:
        ConfigError: it is in the home of a user who is not known here.
    """
    user = named(environ.get("HOME") or "~")
    given = override or environ.get(ENV_HOME)
    data = environ.get("XDG_DATA_HOME") or str(user / ".local" / "share")
    cache = environ.get("XDG_CACHE_HOME") or str(user / ".cache")
    root = named(given) if given else Path(data) / "tenure"
    if str(root).startswith("~"):
        raise ConfigError(f"The home {given!r} is of a user who is unknown here; name a folder.")
    return Home(root.absolute(), Path(cache).absolute() / "tenure")


def load(home: Home) -> Loaded:
    """Read and check the configuration file.

    Raises:
        ConfigError: the file is unreadable, no TOML, or a value has the wrong type.
    """
    text = _text(home)
    return Loaded(Config(), home.config, exists=False) if text is None else parse(text, home.config)


def load_profile(home: Home, name: str) -> Loaded:
    """The configuration of a profile: its own file over the home's.

    Tables are merged key by key. Approval rules add up, so what the home denies stays denied.

    Raises:
        ConfigError: one of the files is wrong; it is named.
        BadValue: `name` cannot name a profile.
    """
    own = home.profile(name)
    base, text = load(home), None if own is home else _text(own)
    if text is None:
        return base
    top = parse(text, own.config)  # by itself first: a wrong value is that of this file
    below = tomllib.loads(_text(home) or "")
    raw = tomllib.loads(text)
    odd = [f"{own.config}: {key} counts in {home.config} only." for key in _HOME_ONLY if key in raw]
    kept = {key: value for key, value in raw.items() if key not in _HOME_ONLY}
    config = msgspec.convert(_over(below, kept), Config)
    return Loaded(config, own.config, exists=True, warnings=(*base.warnings, *top.warnings, *odd))


_HOME_ONLY = ("server", "log_level")
"""What is the gateway's, not a profile's."""


def _over(below: Any, above: Any) -> Any:
    if isinstance(below, dict) and isinstance(above, dict):
        merged = {key: _over(below[key], above[key]) for key in below if key in above}
        return {**below, **above, **merged}
    if isinstance(below, list) and isinstance(above, list):
        return [*above, *below]
    return above


def _text(home: Home) -> str | None:
    """The text of a configuration file, or None where there is none."""
    try:
        return home.config.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except NotADirectoryError:
        raise ConfigError(f"The home {home.root} is not a folder; set {ENV_HOME}.") from None
    except (OSError, UnicodeDecodeError) as exc:
        raise ConfigError(f"{home.config} cannot be read ({exc}); mend or remove it.") from None


def parse(text: str, path: Path) -> Loaded:
    """Check TOML `text` that stands at `path`.

    Raises:
        ConfigError: naming the file, the line, the key and what was expected.
    """
    loaded, wrong = examine(text, path)
    if loaded is None:
        more = f" (And {len(wrong) - 1} more; see `tenure config check`.)" if wrong[1:] else ""
        raise ConfigError(wrong[0] + more)
    return loaded


def examine(text: str, path: Path) -> tuple[Loaded | None, list[str]]:
    """Look for everything that is wrong with TOML `text`: a sentence each.

    Returns:
        What it says, and nothing wrong; or None, and at least one sentence.
    """
    try:
        raw = tomllib.loads(text)
    except tomllib.TOMLDecodeError as exc:
        return None, [f"{path} is not valid TOML: {exc}."]
    warnings: list[str] = []
    _walk(raw, Config, "", warnings)
    config, found = _converted(raw)
    found = sorted([*found, *problems(config)], key=lambda problem: line_of(text, problem.key))
    told = tuple(f"{path}: {w}" for w in warnings)
    if found:
        wrong = [f"{path} {_place(text, p.key)}: {p.key} {p.text}" for p in found]
        return None, [*wrong, *told]
    return Loaded(config, path, exists=True, warnings=told), []


def _place(text: str, key: str) -> str:
    line = line_of(text, key)
    return f"line {line}" if line else "somewhere"


def _converted(raw: dict[str, Any]) -> tuple[Config, list[Problem]]:
    """What `raw` says; each value of a wrong type is told, and counts as another one."""
    found: list[Problem] = []
    providers = raw.get("providers")
    if isinstance(providers, dict):  # the library does not say which one
        raw = {**raw, "providers": dict(providers)}
        for name, entry in providers.items():
            try:
                msgspec.convert(entry, ProviderConfig)
            except msgspec.ValidationError as exc:
                found.append(mistake(exc, Config, f"providers.{name}"))
                del raw["providers"][name]
    while True:
        try:
            return msgspec.convert(raw, Config), found
        except msgspec.ValidationError as exc:
            found.append(mistake(exc, Config))
            raw = mended(raw, found[-1].key, Config)


def check_files(home: Home, profile: str) -> list[str]:
    """Everything that is wrong with the configuration of a profile, a sentence each.

    Raises:
        ConfigError: a file cannot be read.
        BadValue: `profile` cannot be a name.
    """
    wrong = []
    for one in dict.fromkeys((home, home.profile(profile))):
        text = _text(one)
        wrong += examine(text, one.config)[1] if text is not None else []
    return wrong


def json_schema() -> dict[str, Any]:
    """The JSON Schema of the configuration file."""
    return msgspec.json.schema(Config)


def _walk(raw: dict[str, Any], struct: type[msgspec.Struct], at: str, out: list[str]) -> None:
    """Collect a warning for each key that `struct` does not know."""
    fields = {f.name: f.type for f in msgspec.structs.fields(struct)}
    for key, value in raw.items():
        if key not in fields:
            near = difflib.get_close_matches(key, fields, n=1)
            hint = f"did you mean {at}{near[0]}?" if near else "it is ignored."
            out.append(f"unknown key {at}{key}; {hint}")
            continue
        for inner, name, entry in _inside(key, value, fields[key]):
            _walk(entry, inner, f"{at}{name}.", out)


def _inside(
    key: str, value: Any, kind: Any
) -> Iterator[tuple[type[msgspec.Struct], str, dict[str, Any]]]:
    """The tables inside a value, with the struct that describes each."""
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        found = [(kind, key, value)]
    elif key == "providers" and isinstance(value, dict):
        found = [(ProviderConfig, f"providers.{name}", entry) for name, entry in value.items()]
    elif key == "rules" and isinstance(value, list):
        found = [(ApprovalRule, f"rules[{n}]", entry) for n, entry in enumerate(value)]
    else:
        found = []
    return (item for item in found if isinstance(item[2], dict))
