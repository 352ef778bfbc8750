"""What must hold when the clients of a scenario have gone, over the wire and from outside."""

from __future__ import annotations

import json
from collections import Counter, defaultdict

from proof.chaos.ground import Ground
from proof.lifecycles import at_rest
from proof.real.gateway import Gateway, Held, left_of
from proof.real.wire import Wire

FINAL = {"completed", "interrupted", "failed", "refused"}
ENDS = ("message.complete", "message.steered")


async def check(ground: Ground, gateway: Gateway, wire: Wire, before: Held) -> list[str]:
    """End the sessions that are left, and look at everything that may be wrong.

    Args:
        ground: what was promised.
        gateway: it serves still.
        wire: a connection that is part of the baseline.
        before: the baseline.
    """
    await ground.aclose()
    while live := (await wire.call("session.active_list"))["sessions"]:
        for row in live:
            await ground.ask(wire, "session.close", session_id=row["id"])
    after = await at_rest(gateway, wire, before)
    wrong = [*ground.wrong]
    wrong += [f"{by} {name} more than before" for name, by in after.more_than(before).items()]
    verdict = await wire.call("census.verify")
    wrong += [f"census and system differ: {one}" for one in verdict["differences"]]
    if verdict["found"]:
        wrong.append(f"{verdict['found']} strays were found meanwhile")
    return wrong + stored(ground, gateway)


def stored(ground: Ground, gateway: Gateway) -> list[str]:
    """What the database says of what was accepted: one end for each, no open row, no gap."""
    wrong = [f"{n} {name} are open" for name, n in gateway.open_rows().items() if n]
    turns = dict(gateway.query("SELECT id, state FROM turns"))
    wrong += [f"{one} is {state}" for one, state in turns.items() if state not in FINAL]
    ends: Counter[str] = Counter()
    seqs: dict[tuple[str, int], list[int]] = defaultdict(list)
    rows = gateway.query(
        "SELECT session_id, epoch, seq, type, payload FROM events ORDER BY 1, 2, 3"
    )
    for session, epoch, seq, kind, payload in rows:
        seqs[session, epoch].append(seq)
        if kind in ENDS:
            ends[json.loads(payload)["turn_id"]] += 1
    for (session, epoch), found in seqs.items():
        if found != list(range(found[0], found[0] + len(found))):
            wrong.append(f"{session}: the events of epoch {epoch} have gaps")
    for session, accepted in ground.accepted.items():
        for turn in accepted - ground.taken_back.get(session, set()):
            if turn not in turns:
                wrong.append(f"{turn} of {session} was acknowledged and is not stored")
            elif ends[turn] != 1:
                wrong.append(f"{turn} of {session}, {turns[turn]}, has {ends[turn]} ends")
    wrong += [f"{turn} has {n} ends" for turn, n in ends.items() if n > 1]
    return wrong


def ended(gateway: Gateway, code: int) -> list[str]:
    """What must hold when the gateway itself has ended."""
    wrong = [f"the gateway ended with {code}"] if code else []
    wrong += [f"left behind: {one}" for one in left_of(gateway)]
    told = (gateway.folder / "stderr").read_text()
    for log in (gateway.home / "logs").glob("*"):
        told += log.read_text(errors="replace")
    bad = [line for line in told.splitlines() if "Traceback" in line or "never retrieved" in line]
    return wrong + [f"the log says: {line}" for line in bad[:5]]
