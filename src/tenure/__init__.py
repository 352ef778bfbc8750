"""Tenure: an agent gateway whose sessions own what they use.

Importing this package has no effect and imports nothing else.
"""

__version__ = "0.1.0"
