"""The environment of a child: built for it from a short list of names, never a copy of ours."""

from __future__ import annotations

from collections.abc import Mapping

from tenure.processes.containment import LABEL

PASSED = frozenset(
    (
        *(
            "PATH",
            "HOME",
            "USER",
            "LOGNAME",
            "SHELL",
            "LANG",
            "LANGUAGE",
            "TERM",
            "COLORTERM",
            "TZ",
        ),
        *("TMPDIR", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME"),
        *("SSL_CERT_FILE", "SSL_CERT_DIR", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY"),
        *("http_proxy", "https_proxy", "no_proxy", "all_proxy"),
    )
)
"""What a program needs to find its files, speak the user's language and reach the network. No keys
of providers: a child that needs one is given it by name."""

SCREEN = ("DISPLAY", "XAUTHORITY", "WAYLAND_DISPLAY", "XDG_RUNTIME_DIR")
"""For the few children that speak to the person's screen, over what all get."""
DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def build_environment(
    ours: Mapping[str, str], label: str, extra: Mapping[str, str]
) -> dict[str, str]:
    """The environment for one child.

    Args:
        ours: what to pick from.
        label: ``instance/owner/spawner-number``; attributes the child and what it starts. It does
            not contain them: a program may clear its environment.
        extra: set as given, over what was picked, but never over the label.
    """
    env = {name: text for name, text in ours.items() if name in PASSED or name.startswith("LC_")}
    env.setdefault("PATH", DEFAULT_PATH)
    env.update(extra)
    env[LABEL] = label
    return env
