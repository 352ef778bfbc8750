"""Pytest plugin: a test that leaves anything behind fails."""
