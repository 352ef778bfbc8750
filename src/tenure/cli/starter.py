"""See to it that a model can serve before a session begins."""

from __future__ import annotations

from tenure.cli.attach import Where


async def ensure_model(where: Where, *, yes: bool, quiet: bool) -> None:
    """Offer the download of the starter model where nothing else is configured."""
    del where, yes, quiet
