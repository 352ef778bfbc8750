"""The starter model: an embedded default that needs no key. See ARCHITECTURE.md."""
