"""See ARCHITECTURE.md for what lives in lifecycle."""
