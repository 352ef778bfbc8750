"""See ARCHITECTURE.md for what lives in models."""
