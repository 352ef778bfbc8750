"""Chaos over real sockets: what was reported to break other gateways, tried on the real server."""
