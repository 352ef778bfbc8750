"""The explorer, tried on itself: a guard is taken out of the running code, and exploring notices.

Each row names the scenario that must find it. The guards of the whole project, with the tests that
notice each, stand in the table of mutants; these are the ones that only an unlucky order shows.
"""

from __future__ import annotations

import importlib
import inspect
import types
from typing import NamedTuple

import pytest

from proof import sweep
from proof.explore import explore
from proof.scenarios import all_scenarios
from proof.seams import seams


class Guard(NamedTuple):
    """One guard: what it says becomes something else in a module, and a scenario must notice."""

    about: str
    module: str
    changes: tuple[tuple[str, str], ...]
    scenario: str
    schedules: int = 400


LEASE, SCOPE = "tenure.lifecycle.lease", "tenure.lifecycle.scope"
GUARDS = (
    Guard(
        "a close does not wait for a build", LEASE,
        (("if self.state is _RELEASED or self.state is _LEAKED:\n            return None",
          "if self.state in {_RELEASED, _LEAKED, _BUILDING}:\n            return None"),),
        "close-against-build",
    ),
    Guard(
        "a build is handed out after the claim", LEASE,
        (("if self.state is not _HELD or not self._owner.admits:\n            raise ScopeClosed(",
          "if self.state is not _HELD:\n            raise ScopeClosed("),),
        "close-against-two-builds",
    ),
    Guard(
        "a release may begin twice", LEASE,
        (("        if self.state is _HELD:\n            self._begin_end()\n        if self.state is _RELEASED",
          "        if self.state in {_HELD, _RELEASING}:\n            self._begin_end()\n        if self.state is _RELEASED"),
         ("        self._release = None  # once, whoever comes second\n", "")),
        "two-early-releases",
    ),
    Guard(
        "two drivers close a scope", SCOPE,
        (("        if self._driving:  # one driver, whoever else asks\n            return\n", ""),),
        "two-closers",
    ),
    Guard(
        "an early release leaves the tree before it is over", LEASE,
        (("        self.state = _RELEASING\n        if self._borrowers == 0:",
          "        self.state = _RELEASING\n        self._owner.forget(self)\n        if self._borrowers == 0:"),),
        "early-release-against-close",
    ),
    Guard(
        "the claim of an early release takes effect a step late", LEASE,
        (("        self.release_nowait()\n        return self._wait_ended(self.end())",
          "        async def late() -> None:\n            self.release_nowait()\n            await self._wait_ended(self.end())\n\n        return late()"),),
        "move-against-release",
    ),
    Guard(
        "a lease moves out of a scope that is claimed", LEASE,
        (("        if self.state is not _HELD or not self._owner.admits:\n            raise self._closed()\n        scope.take_over",
          "        scope.take_over"),),
        "move-between-closing-scopes",
    ),
    Guard(
        "a claim does not reach the scopes below", SCOPE,
        (("                entry.claim(reason)\n        return True", "                pass\n        return True"),),
        "a-child-against-the-claim",
    ),
    Guard(
        "something is lent after the claim of its scope", LEASE,
        (("        if self.state is not _HELD or not self._owner.admits:\n            raise self._closed()\n        self._borrowers",
          "        if self.state is not _HELD:\n            raise self._closed()\n        self._borrowers"),),
        "borrow-against-close",
    ),
    Guard(
        "a release does not wait for the last borrower", LEASE,
        (("        if self._borrowers == 0:\n            self._run_release()\n        if self.state is _RELEASING",
          "        self._run_release()\n        if self.state is _RELEASING"),),
        "borrow-against-close",
    ),
    Guard(
        "a shared thing is built while the last one is being released", "tenure.lifecycle.shared",
        (("            await slot.lease.release()  # joins the release that runs\n            self._drop(slot)",
          "            self._drop(slot)"),),
        "a-borrower-after-the-last",
    ),
    Guard(
        "a disconnect does not ask who else listens", "tenure.rpc.connection",
        (("if session and bound and session.attachments.left_by(bound.value):",
          "if session and bound and bound.value.close_on_disconnect:"),),
        "a-taker-over",
    ),
    Guard(
        "two who leave count on each other", "tenure.sessions.attachments",
        (("if b.value is not attachment and b.owner.admits]", "if b.value is not attachment]"),),
        "two-who-leave-at-one-moment",
    ),
    Guard(
        "a claimed session admits prompts", "tenure.sessions.actor",
        (("        if not self.scope.admits:\n            raise SessionClosing(",
          "        if False:\n            raise SessionClosing("),),
        "submit+close",
    ),
    Guard(
        "nobody ends what was opened for requesters who have left", "tenure.sessions.registry",
        (("            opening.waiters -= 1\n            self._end_if_left(opening)",
          "            opening.waiters -= 1"),),
        "resume-lazy+resume-lazy",
    ),
    Guard(
        "a session whose requester left before its commit stays", "tenure.sessions.registry",
        (('            self.close_nowait(session, GONE, "client")\n            raise\n        return session',
          "            raise\n        return session"),),
        "create+create",
    ),
    Guard(
        "a profile is let go before its session's last write", "tenure.sessions.registry",
        (("            await end_session(session, reason, cause)",
          "            self.profiles.let_go(session.ports.profile, session.id)\n            await end_session(session, reason, cause)"),),
        "one-profile-and-its-last-session",
    ),
    Guard(
        "every resume opens for itself", "tenure.sessions.registry",
        (("        if opening is None:\n            self._admit()", "        if True:\n            self._admit()"),),
        "five-who-resume",
    ),
    Guard(
        "what waits for its commit is published before it", "tenure.sessions.journal",
        (("            while self._line and self._line[0].ready:\n", "            while self._line:\n"),
         ("        elif entry.commit.cancelled():", "        elif not entry.commit.done():\n            self._publish_all(entry)\n        elif entry.commit.cancelled():")),
        "attach+submit",
    ),
    Guard(
        "nothing holds a file that waits", "tenure.sessions.uploads",
        (("                    HoldUploads(session.id, upload.digests),\n", ""),),
        "attach-file+tidy",
    ),
    Guard(
        "a comparison removes what is being made", "tenure.sandbox.docker",
        (("        engine.held[key] = False\n", ""),),
        "a-container-against-its-sessions-close",
    ),
    Guard(
        "a container that was made during a comparison counts as lost", "tenure.sandbox.docker",
        (("    made = {lease for lease, is_made in engine.held.items() if is_made}  # before the list is\n", ""),
         ("    listed = await engine.listed()\n    removed",
          "    listed = await engine.listed()\n    made = {lease for lease, is_made in engine.held.items() if is_made}\n    removed")),
        "a-container-that-somebody-removes", 1_500,
    ),
    Guard(
        "two who find a container gone make two", "tenure.sandbox.docker",
        (("        if self._lease is lease and (lease is None or lease.ending):", "        if True:"),),
        "a-container-that-somebody-removes",
    ),
)  # fmt: skip


def without(guard: Guard, monkeypatch) -> None:
    """Take the guard out of the functions that are loaded."""
    module = importlib.import_module(guard.module)
    text = inspect.getsource(module)
    for old, new in guard.changes:
        assert text.count(old) == 1, f"{guard.about}: the code has changed"
        text = text.replace(old, new)
    changed = dict(module.__dict__)
    exec(compile(text, module.__file__, "exec"), changed)
    different = [
        (mine, other)
        for mine, other in pairs(vars(module), changed, guard.module)
        if mine.__code__.co_code != other.__code__.co_code
        or (
            mine.__code__.co_consts != other.__code__.co_consts
            and str(mine.__code__.co_consts) != str(other.__code__.co_consts)
        )
    ]
    assert different
    for mine, other in different:
        monkeypatch.setattr(mine, "__code__", other.__code__)


def pairs(old, new, module):
    """The functions of a module or class, methods and properties included, with their others."""
    for name in list(old):
        mine, other = (getattr(names.get(name), "fget", names.get(name)) for names in (old, new))
        if getattr(mine, "__module__", "") != module:
            continue
        if isinstance(mine, type):
            yield from pairs(vars(mine), vars(other), module)
        elif isinstance(mine, types.FunctionType) and isinstance(other, types.FunctionType):
            yield mine, other


@pytest.mark.slow
@pytest.mark.parametrize("guard", GUARDS, ids=lambda guard: guard.about.replace(" ", "-"))
def test_exploring_finds_what_the_guard_prevents(guard, monkeypatch):
    scenario = all_scenarios()[guard.scenario]
    with seams():
        assert not explore(scenario, 60).found
        without(guard, monkeypatch)
        tally = explore(scenario, guard.schedules, stop=True)
    assert tally.found, f"{tally.runs} schedules of {guard.scenario} have not noticed"


def test_the_sweep_finds_what_a_guard_prevents(monkeypatch):
    (guard,) = (g for g in GUARDS if g.about.startswith("a session whose requester left"))
    with seams():
        assert not sweep.sweep(12, ["create"]).found
        without(guard, monkeypatch)
        found = sweep.sweep(12, ["create"]).found
    assert any(".cancel." in case for case in found)
