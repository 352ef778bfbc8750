"""See ARCHITECTURE.md for what lives in rpc.handlers."""
