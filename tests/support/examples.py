"""Hypothesis, on whatever machine: neither a slow example nor a slow draw is a failure."""

from hypothesis import HealthCheck, given, settings, strategies

settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")

__all__ = ["HealthCheck", "given", "settings", "strategies"]
