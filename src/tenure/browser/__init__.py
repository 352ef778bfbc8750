"""A browser for all sessions: Chromium in a child of ours, reached through `client.py`.

`host.py` is that child's program. It and what it uses (`pages.py`, `proxy.py`, `memory.py`) are
never imported by the gateway; the gateway's side is `client.py`, `lending.py` and `visit.py`.
"""
