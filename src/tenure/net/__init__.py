"""Reaching other machines: what may be connected to, and connecting to exactly that."""
