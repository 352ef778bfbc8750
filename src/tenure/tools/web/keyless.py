"""The search without a key, run in a child: its library brings a network stack of its own.

It reads one JSON object from stdin and writes one to stdout: the rows, or why there are none.
"""

from __future__ import annotations

import json
import sys

MISSING = "missing"
SILENCE_S = 10


def main() -> None:
    """Search for ``query``; at most ``count`` rows."""
    asked = json.load(sys.stdin)
    try:
        from ddgs import DDGS
        from ddgs.exceptions import DDGSException, RatelimitException, TimeoutException
    except ImportError:
        json.dump({"error": MISSING}, sys.stdout)
        return
    told: dict[str, object]
    try:
        search = DDGS(proxy=asked["proxy"] or None, timeout=SILENCE_S)
        rows = search.text(asked["query"], max_results=asked["count"])
        told = {"rows": rows}
    except RatelimitException:
        told = {"error": "it has had too many searches from here; wait, or use another provider"}
    except TimeoutException:
        told = {"error": f"nobody answered within {SILENCE_S} s"}
    except DDGSException as exc:
        why = str(exc)
        none = "no results" in why.lower()
        told = {"rows": []} if none else {"error": f"no service answers ({why.partition('(')[0]})"}
    json.dump(told, sys.stdout)


if __name__ == "__main__":
    main()
