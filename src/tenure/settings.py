"""Tables of the configuration file that belong to one part each. Values only.

`config.py` puts them together and reads them; the parts import theirs from here.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec


class CheckpointsConfig(msgspec.Struct, frozen=True):
    """``[checkpoints]``: what is saved before a turn changes the working directory."""

    enabled: bool = True
    file_bytes_max: int = 16 * 1024 * 1024
    """A larger file is not saved."""
    files_max: int = 20_000
    """Files, folders and links of one checkpoint; those nearest to the root come first."""
    total_bytes_max: int = 512 * 1024 * 1024
    """Bytes of all files of one checkpoint."""
    seconds_max: float = 30.0
    """How long one look at the folder may take; the turn waits for it."""
    skip: tuple[str, ...] = (
        ".git", ".hg", ".svn", "node_modules", ".venv", "venv", "__pycache__", ".mypy_cache",
        ".pytest_cache", ".ruff_cache", ".tox", ".nox", ".gradle", ".terraform", ".next", ".cache",
    )  # fmt: skip
    """Names of folders that are not saved. Folders with a ``pyvenv.cfg`` or a ``CACHEDIR.TAG`` are
    not either."""
    keep_days: float = 14.0
    per_session_max: int = 100
    store_bytes_max: int = 4 * 1024 * 1024 * 1024
    """Bytes of all saved contents of the home; the oldest checkpoints go first."""


class RetentionConfig(msgspec.Struct, frozen=True):
    """``[retention]``: how long, and how much of it, what nobody asked to keep is kept."""

    spill_days: float = 14.0
    """Whole outputs of tools."""
    spill_bytes_max: int = 1024 * 1024 * 1024
    backup_days: float = 180.0
    """Copies made before migrations; the newest one stays."""
    backups_max: int = 5
    events_days: float = 30.0
    """Events of closed sessions, which clients replay; the history itself stays."""
    session_days: float = 0.0
    """Closed sessions that nobody has used for so long are deleted; 0: never."""


class SkillsConfig(msgspec.Struct, frozen=True):
    """``[skills]``: folders of instructions that agents load."""

    enabled: bool = True


class MemoryConfig(msgspec.Struct, frozen=True):
    """``[memory]``: what agents of a profile remember from session to session."""

    enabled: bool = True
    """Without, agents neither read nor propose notes; people still can see and remove them."""
    auto_accept: bool = False
    """Let what an agent proposes count at once. What it has read anywhere may then stay."""
    prompt_chars: Annotated[int, msgspec.Meta(ge=0, le=50_000)] = 4_000
    """Of the notes that stand in the system text, the newest first; all can be searched."""
    notes_max: Annotated[int, msgspec.Meta(ge=1, le=5_000)] = 500
    bytes_max: Annotated[int, msgspec.Meta(ge=1_000, le=4 * 1024 * 1024)] = 256 * 1024


class HooksConfig(msgspec.Struct, frozen=True):
    """``[hooks]``: commands of yours that the gateway runs, each with its arguments, bounded."""

    session_end: tuple[str, ...] = ()
    timeout_s: Annotated[float, msgspec.Meta(gt=0.0, le=3600.0)] = 30.0


class SshConfig(msgspec.Struct, frozen=True):
    """``[sandbox.ssh]``: the machine on which commands of sessions with sandbox ssh run."""

    host: str = ""
    port: Annotated[int, msgspec.Meta(ge=1, le=65535)] = 22
    user: str = ""
    """Empty: the one here."""
    directory: str = ""
    """The working directory there, absolute; sessions of one configuration share it."""
    key: str = ""
    """A private key's file; empty: the usual ones, and an agent's."""
    known_hosts: str = ""
    """Empty: ``~/.ssh/known_hosts``."""
    fingerprint: str = ""
    """The server's key, ``SHA256:…``; then known_hosts does not count."""

    @property
    def missing(self) -> str:
        """What must be said before it can be used; empty: nothing."""
        if self.host and self.directory.startswith("/"):
            return ""
        return "sandbox ssh needs sandbox.ssh.host, and sandbox.ssh.directory as an absolute path."


class DockerConfig(msgspec.Struct, frozen=True):
    """``[sandbox.docker]``: how containers of sessions with sandbox docker are made."""

    program: str = ""
    """docker or podman, or the path of either; empty: the first that is there."""
    image: str = "debian:stable-slim"
    """What commands find there. It needs ``sh``; it is pulled if it is missing."""
    start_s: Annotated[float, msgspec.Meta(gt=0.0, le=3600.0)] = 120.0
    """How long making a container may take, the pull included."""


class SandboxConfig(msgspec.Struct, frozen=True):
    """``[sandbox]``: where commands run, and what they see there."""

    kind: Literal["auto", "local", "bubblewrap", "docker", "ssh"] = "auto"
    """auto: bubblewrap where it works, else local (unconfined)."""
    network: bool = False
    """Whether commands in a box reach the network; without, a command may ask for it."""
    read: tuple[str, ...] = ()
    """Further paths that a box shows (absolute, or ``~/…``)."""
    write: tuple[str, ...] = ()
    """Further paths that commands in a box may change."""
    ssh: SshConfig = SshConfig()
    docker: DockerConfig = DockerConfig()


class SearchConfig(msgspec.Struct, frozen=True):
    """``[web.search]``: who is asked."""

    provider: Literal["ddgs", "searxng", "brave", "tavily", "off"] = "ddgs"
    url: str = ""
    """Of a SearXNG server; of the others only where theirs is to be replaced."""
    results_max: Annotated[int, msgspec.Meta(ge=1, le=20)] = 8


class WebConfig(msgspec.Struct, frozen=True):
    """``[web]``: what of the network the tools of the web and the browser may reach."""

    enabled: bool = True
    """Without, sessions have no network: no web tools, no browser, no remote tool servers."""
    allow: tuple[str, ...] = ()
    """Besides the public internet: addresses, networks, hosts, each perhaps with ``:PORT``."""
    proxy: str = ""
    """An HTTP proxy for all of it; the environment's proxies are not used."""
    timeout_s: Annotated[float, msgspec.Meta(gt=0.0, le=600.0)] = 30.0
    """For one page or search, redirects and reading included."""
    fetch_bytes_max: Annotated[int, msgspec.Meta(ge=1024, le=64 * 1024 * 1024)] = 5 * 1024 * 1024
    """Bytes of one page, after decompression."""
    search: SearchConfig = SearchConfig()


class BrowserConfig(msgspec.Struct, frozen=True):
    """``[browser]``: one Chromium for all sessions. What it may reach stands in ``[web]``."""

    enabled: bool = True
    executable: str = ""
    """Chromium or a browser made from it; empty: the first that is on the PATH."""
    idle_s: Annotated[float, msgspec.Meta(gt=0.0, le=86_400.0)] = 600.0
    """A session's pages are closed when it has not used them for so long."""
    sessions_max: Annotated[int, msgspec.Meta(ge=1, le=1_000)] = 32
    """Sessions with open pages, at one time."""
    pages_max: Annotated[int, msgspec.Meta(ge=1, le=100)] = 8
    """Pages of one session."""
    page_mib: Annotated[int, msgspec.Meta(ge=64)] = 1_024
    """Memory of one page; over it, the page is ended."""
    total_mib: Annotated[int, msgspec.Meta(ge=256)] = 4_096
    """Memory of the whole browser; over it, its largest page is ended."""
    file_mib: Annotated[int, msgspec.Meta(ge=1, le=4_096)] = 256
    """The largest download, and the most that one connection may bring."""


class DelegationConfig(msgspec.Struct, frozen=True):
    """``[delegation]``: sub-agents, which a turn hands tasks to."""

    enabled: bool = True
    parallel_max: Annotated[int, msgspec.Meta(ge=1, le=64)] = 4
    """Sub-agents of one session that work at the same time; the others wait for a place."""
    tasks_max: Annotated[int, msgspec.Meta(ge=1, le=64)] = 8
    """Tasks of one call."""
    depth_max: Annotated[int, msgspec.Meta(ge=1, le=8)] = 2
    """1: sub-agents have none of their own."""
    steps_max: Annotated[int, msgspec.Meta(ge=1)] = 40
    """Model calls of one sub-agent."""
    tokens_max: Annotated[int, msgspec.Meta(ge=1)] = 500_000
    """Tokens in and out of one sub-agent; over it, it is ended and what it has is kept."""
    timeout_s: Annotated[float, msgspec.Meta(gt=0.0)] = 1_800.0
    stall_s: Annotated[float, msgspec.Meta(gt=0.0)] = 300.0
    """A sub-agent that does nothing for so long (no text, no tool, no question) is ended."""
