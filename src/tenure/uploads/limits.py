"""How large what comes with prompts may be. The table stands in docs/operations.md."""

from __future__ import annotations

IMAGE_BYTES_MAX = 25 * 1024 * 1024
PDF_BYTES_MAX = 50 * 1024 * 1024
FILE_BYTES_MAX = 25 * 1024 * 1024
"""Of a file of any other kind."""
PIXELS_MAX = 64_000_000
"""Of an image, before it is unpacked: 8,000 x 8,000. Unpacked it takes a quarter of a gigabyte."""
KEPT_EDGE_MAX = 2_000
"""Pixels of the longer edge of what is kept: the most that every provider takes in a request with
many images; they make larger ones smaller themselves."""
KEPT_BYTES_MAX = 3_700_000
"""Of an image that is kept: under 5 MB in base64, which is the least that a provider takes."""
PDF_PAGES_MAX = 1_000
TEXT_CHARS_MAX = 400_000
"""Of the text that is read in a PDF, or of a text file that is offered as text."""
