"""Checkpoints: what a folder held before a turn changed it, kept outside of git, and given back."""
