"""See ARCHITECTURE.md for what lives in store."""
