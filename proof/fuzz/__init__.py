"""``python -m proof fuzz``: nonsense at every door, and what must never come of it."""
