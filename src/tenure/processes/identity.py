"""Process identities: what names one process for ever, across pid reuse and reboots."""

from __future__ import annotations

from tenure.processes.procfs import Identity, boot_id, identity_of, is_alive

__all__ = ["Identity", "boot_id", "identity_of", "is_alive"]
