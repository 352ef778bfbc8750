"""What the gateway and the browser's host say to each other: one JSON object a line.

The gateway sends a `Launch`, then `Request`s; the host answers the launch with a `Ready`, and each
request once, in any order. The host's input ends: it closes the browser and exits.
"""

from __future__ import annotations

from typing import Literal

import msgspec

LINE_BYTES_MAX = 4 * 1024 * 1024
"""The longest line that either side takes; a longer one ends the host."""

Verb = Literal[
    "navigate", "snapshot", "click", "type", "press", "select", "scroll", "back", "tabs", "console",
    "network", "screenshot", "pdf", "download",
]  # fmt: skip
"""What can be done with a page."""

ACTING = frozenset({"click", "type", "press", "select", "download"})
"""What does something on a page: only where somebody has allowed the host."""


class Launch(msgspec.Struct, frozen=True):
    """How to start the browser."""

    executable: str
    folder: str
    """Everything that the browser writes goes below it."""
    confined: bool
    """Chromium's own sandbox; off for root, who has none."""
    page_mib: int
    """Memory of one renderer; over it, it is ended."""
    total_mib: int
    """Memory of the browser; over it, its largest renderer is ended."""


class Ready(msgspec.Struct, frozen=True, omit_defaults=True):
    """The browser runs, or why it does not."""

    version: str = ""
    pid: int = 0
    """Chromium's own process."""
    error: str = ""


class Rules(msgspec.Struct, frozen=True):
    """What a context may do."""

    allow: tuple[str, ...] = ()
    """Addresses besides the public internet; see `net.addresses`."""
    proxy: str = ""
    timeout_s: float = 30.0
    """For loading one page."""
    text_bytes_max: int = 30_000
    file_bytes_max: int = 256 * 1024 * 1024
    pages_max: int = 8


class Action(msgspec.Struct, frozen=True, omit_defaults=True):
    """One thing to do in a context."""

    verb: Verb
    url: str = ""
    ref: str = ""
    """An element, as the latest snapshot calls it."""
    text: str = ""
    submit: bool = False
    """After typing: press Enter."""
    whole: bool = False
    """A screenshot of the whole page instead of what is in view."""


class Request(msgspec.Struct, frozen=True, omit_defaults=True):
    """Something that the gateway wants."""

    id: int
    op: Literal["open", "close", "act", "cancel"]
    context: str = ""
    rules: Rules | None = None
    action: Action | None = None


class Outcome(msgspec.Struct, frozen=True, omit_defaults=True):
    """What an action gave.

    Attributes:
        text: for the model.
        url: of the page after it.
        file: a file below the folder of the launch, which is now the gateway's to move or remove.
        name: what the file wants to be called, as a page has said it: not to be trusted.
    """

    text: str = ""
    url: str = ""
    file: str = ""
    name: str = ""


class Answer(msgspec.Struct, frozen=True, omit_defaults=True):
    """The answer to one request: an error of one sentence, or an outcome."""

    id: int
    error: str = ""
    outcome: Outcome | None = None
