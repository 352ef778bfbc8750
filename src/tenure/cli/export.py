"""Blank secrets in what leaves the machine."""

from __future__ import annotations

from tenure.cli.attach import Where
from tenure.logs import Redactor
from tenure.models.credentials import Credentials


def redacted(where: Where, text: str) -> str:
    """`text` without the home's token, stored keys, keys in the environment, or their shapes."""
    homes = (where.home, where.own)
    secrets = [key for home in homes for key in Credentials(home.credentials).load().values()]
    secrets += [v for k, v in where.environ.items() if k.endswith(("_KEY", "_TOKEN", "_SECRET"))]
    if where.home.token.exists():
        secrets.append(where.home.token.read_text().strip())
    return Redactor(secrets)(text)
