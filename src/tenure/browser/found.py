"""Whether there is a browser, without starting or importing anything."""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Mapping
from typing import NamedTuple

from tenure.settings import BrowserConfig

NAMES = (
    "chromium-headless-shell", "chrome-headless-shell",  # no windows: half the memory of the others
    "chromium", "chromium-browser", "google-chrome", "google-chrome-stable",
)  # fmt: skip


class Found(NamedTuple):
    """A browser, or why there is none.

    Attributes:
        executable: its path; "" if there is none.
        missing: what is missing, as a sentence.
        mend: how to mend that.
    """

    executable: str = ""
    missing: str = ""
    mend: str = ""


def find_browser(config: BrowserConfig, environ: Mapping[str, str]) -> Found:
    """Look for the library and the program."""
    if not config.enabled:
        return Found(missing="The browser is switched off.", mend="[browser] enabled = true")
    if importlib.util.find_spec("playwright") is None:
        return Found(
            missing="The browser needs the package playwright.",
            mend="pip install 'tenure[browser]'",
        )
    path = environ.get("PATH")
    for name in (config.executable,) if config.executable else NAMES:
        executable = shutil.which(name, path=path)
        if executable is not None:
            return Found(executable)
    if config.executable:
        return Found(
            missing=f"{config.executable} cannot be executed.",
            mend="Mend [browser] executable, or leave it out.",
        )
    return Found(
        missing="There is no Chromium.",
        mend="apt-get install chromium-headless-shell (or chromium)",
    )
