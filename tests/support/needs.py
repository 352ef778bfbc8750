"""Real parts that tests are about: a test is skipped where one is missing, and fails in CI.

A mark (``@pytest.mark.needs("bwrap")``) or a call in a fixture (``need("chromium")``).
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
from collections.abc import Callable, Mapping
from typing import NoReturn

import pytest

from tenure.browser.found import find_browser
from tenure.settings import BrowserConfig

REAL = "TENURE_TESTS_REAL"
"""Set where all parts must be there, as in .ci/run: a skip would hide that one was not tried."""
UNSHARE = ("unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc")


def chromium() -> str:
    """Its path; empty if there is none that the browser's tools can use."""
    return find_browser(BrowserConfig(), dict(os.environ)).executable


def program(name: str) -> str:
    """A program's path, also one for administrators; empty if there is none."""
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin") or ""


def _namespaces() -> bool:
    return subprocess.run([*UNSHARE, "true"], check=False, capture_output=True).returncode == 0


PARTS: dict[str, tuple[str, Callable[[], object]]] = {
    "bash": ("bash", lambda: program("bash")),
    "bwrap": ("bubblewrap", lambda: program("bwrap")),
    "chromium": ("Chromium", chromium),
    "ddgs": ("the package ddgs", lambda: importlib.util.find_spec("ddgs")),
    "namespaces": ("a namespace of pids", _namespaces),
    "pillow": ("the package pillow", lambda: importlib.util.find_spec("PIL")),
    "pypdf": ("the package pypdf", lambda: importlib.util.find_spec("pypdf")),
    "npm": ("npm", lambda: program("npm")),
    "sshd": ("openssh-server", lambda: program("sshd")),
    "xllamacpp": ("the package xllamacpp", lambda: importlib.util.find_spec("xllamacpp")),
}
"""What each is called, and how it is looked for."""


def need(part: str) -> None:
    """Go on if `part` is there; see `missing`."""
    name, look = PARTS[part]
    if not look():
        missing(f"{name} is not here")


def missing(why: str, environ: Mapping[str, str] = os.environ) -> NoReturn:
    """Skip the test, or fail it where everything must be real."""
    if environ.get(REAL):
        pytest.fail(f"{why}, and {REAL} says that nothing is left out", pytrace=False)
    pytest.skip(why)
