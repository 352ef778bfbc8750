"""Whatever bytes a frame has, the peer says what it means and raises nothing."""

from __future__ import annotations

import random

from proof.fuzz.nonsense import mutated
from tenure.protocol.peer import Peer

SEEDS = [
    b'{"jsonrpc":"2.0","id":"a","method":"session.create","params":{"cols":80,"title":"x"}}',
    b'{"jsonrpc":"2.0","id":1,"result":{"a":[1,2.5,null]}}',
    b'{"jsonrpc":"2.0","id":1,"error":{"code":-32600,"message":"m","data":{}}}',
    b'{"jsonrpc":"2.0","method":"event","params":{"type":"t","session_id":"s","payload":{}}}',
]


def codec(rnd: random.Random, count: int) -> list[str]:
    """Violations in `count` frames to one peer."""
    peer, found = Peer(), []
    for _ in range(count):
        found += _problems(peer, mutated(rnd, rnd.choice(SEEDS)))
    return found


def problems_of(data: bytes) -> list[str]:
    """What is wrong with the reading of one frame."""
    return _problems(Peer(), data)


def _problems(peer: Peer, frame: bytes) -> list[str]:
    try:
        peer.receive(frame)
    except Exception as exc:  # noqa: BLE001 - that is what is looked for
        return [f"{exc!r} of {frame!r}"]
    return []
