"""The guards of the failure cases, each with the change that removes it and the tests that notice.

    python -m tests.cases.mutants            every mutant
    python -m tests.cases.mutants 29 89      those of some cases

A mutant is applied to a copy of the source; its tests must fail there. One that survives is a hole
in the tests. tests/house checks that every entry still names code that exists.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

TIMEOUT_S = 120
ROOT = Path(__file__).resolve().parents[2]


class Mutant(NamedTuple):
    """One guard: `old` in `file` becomes `new`, and `tests` must fail."""

    case: int
    about: str
    file: str
    old: str
    new: str
    tests: str


C = "tests/cases/test_case_"
MUTANTS = (
    Mutant(1, "a close does not wait for a build", "lifecycle/lease.py",
           "        if self.state is _RELEASED or self.state is _LEAKED:\n            return None\n        return self.changed()",
           "        if self.state in {_RELEASED, _LEAKED, _BUILDING}:\n            return None\n        return self.changed()",
           f"{C}01_*"),
    Mutant(3, "a helper's stream stays open", "agent/compaction.py",
           "    async with model.stream(request) as events:",
           "    kept = globals().setdefault('kept', [])\n    kept.append(model.stream(request))\n"
           "    events = await kept[-1].__aenter__()\n    if events:", f"{C}03_*"),
    Mutant(4, "the replaced agent is not closed", "sessions/actor.py",
           '                await old.scope.close("replaced")', "                pass", f"{C}04_*"),
    Mutant(6, "the last borrower is not waited for", "lifecycle/shared.py",
           "        slot.users += 1", "        slot.users += 0", f"{C}06_*"),
    Mutant(6, "a profile is let go before its session's last write", "sessions/registry.py",
           "            await end_session(session, reason, cause)",
           "            self.profiles.let_go(session.ports.profile, session.id)\n            await end_session(session, reason, cause)",
           f"{C}06_*"),
    Mutant(6, "who only reads keeps what it has opened", "sessions/profiles.py",
           '        async with self._borrowers.child(f"use {name}") as scope:',
           '        if scope := self._borrowers.child(f"use {name}"):', f"{C}06_*"),
    Mutant(8, "a claimed session admits prompts", "sessions/actor.py",
           "        if not self.scope.admits:\n            raise SessionClosing(",
           "        if False:\n            raise SessionClosing(", f"{C}08_*"),
    Mutant(8, "two closers run two closings", "sessions/registry.py",
           "        if session.closing is None:", "        if True:", f"{C}08_*"),
    Mutant(9, "who asks for a close waits without limit", "sessions/registry.py",
           "            async with deadline(self.ports.clock, CLOSE_PATIENCE_S):",
           "            async with deadline(self.ports.clock, 1e9):", f"{C}09_*"),
    Mutant(13, "every pass opens for itself", "sessions/registry.py",
           "        opening = self._opening.get(session_id)\n        if opening is None:\n            self._admit()",
           "        opening = None\n        if opening is None:\n            self._admit()", f"{C}13_*"),
    Mutant(13, "a call with unknown outcome has no result", "sessions/recovery.py",
           "    answers = unanswered(history)", "    answers = unanswered([])", f"{C}13_*"),
    Mutant(11, "a disconnect does not ask whose the session is now", "rpc/connection.py",
           "            if session and bound and session.attachments.left_by(bound.value):",
           "            if session and bound and bound.value.close_on_disconnect:", f"{C}11_*"),
    Mutant(11, "a late detach ends a newer attachment", "sessions/attachments.py",
           "        if lease is None or epoch not in (0, lease.value.epoch):",
           "        if lease is None:", f"{C}11_*"),
    Mutant(12, "every resume opens for itself", "sessions/registry.py",
           "        if opening is None:\n            self._admit()",
           "        if True:\n            self._admit()", f"{C}12_*"),
    Mutant(14, "a resume does not wait for the closing", "sessions/registry.py",
           "        await self._closed(session_id)\n        session = self._live.get(session_id)",
           "        session = self._live.get(session_id)", f"{C}14_*"),
    Mutant(14, "who has just come is not seen", "sessions/reaper.py",
           "    attached = session.pins > 0 or len(session.attachments) > 0",
           "    attached = session.pins > 0", f"{C}14_*"),
    Mutant(14, "who is about to attach is not seen", "sessions/reaper.py",
           "    attached = session.pins > 0 or len(session.attachments) > 0",
           "    attached = len(session.attachments) > 0", f"{C}14_*"),
    Mutant(15, "a rebuilt agent forgets the model that was chosen", "sessions/actor.py",
           "        self.wanted = row.model", '        self.wanted = ""', f"{C}15_*"),
    Mutant(15, "what was laid to rest has no history", "sessions/actor.py",
           "            if not self.journal.loaded:", "            if False:", f"{C}15_*"),
    Mutant(16, "losing the client closes the session", "rpc/connection.py",
           "            if session and bound and session.attachments.left_by(bound.value):",
           "            if session and bound:", f"{C}16_*"),
    Mutant(17, "an unknown id does not say the way back", "sessions/registry.py",
           "call session.resume to open a stored one.", "it is gone.", f"{C}17_*"),
    Mutant(18, "the reaper looks once", "sessions/reaper.py",
           "            self.look()\n", "            self.look()\n            return\n", f"{C}18_*"),
    Mutant(18, "one that fails keeps the others", "sessions/reaper.py",
           "            except Exception:  # one", "            except ZeroDivisionError:  # one",
           f"{C}18_*"),
    Mutant(19, "what a dead gateway left open is not ended", "store/holding.py",
           "    _, settled = await store.write(mark, SettleLeftovers(CRASH, now, keep_queued=True))\n",
           "    _, settled = await store.write(mark, SettleLeftovers(CRASH, now, 'none', keep_queued=True))\n",
           f"{C}19_*"),
    Mutant(19, "what was running is not marked", "store/holding.py",
           "    mark = MarkInterrupted(held.last_seen)", '    mark = MarkInterrupted(held.last_seen, "none")',
           f"{C}19_*"),
    Mutant(20, "the grace runs on while the machine sleeps", "sessions/reaper.py",
           "        now = self._sessions.ports.clock.monotonic()",
           "        now = self._sessions.ports.clock.wall()", f"{C}20_*"),
    Mutant(21, "a session that is over keeps its place", "sessions/registry.py",
           "        if self._live.get(session.id) is session:\n            del self._live[session.id]\n",
           "", f"{C}21_*"),
    Mutant(21, "no room is made", "sessions/reaper.py",
           '                excess -= self._sessions.unload(session, "making room")',
           "                excess -= 1", f"{C}21_*"),
    Mutant(22, "any session counts as attached", "sessions/reaper.py",
           "    return attached or session.working", "    return True or session.working", f"{C}22_*"),
    Mutant(24, "looking is use", "sessions/registry.py",
           "        session.check_open()\n        if params.auto_approve is not None:",
           "        session.used_at = self.ports.clock.monotonic()\n"
           "        session.check_open()\n        if params.auto_approve is not None:", f"{C}24_*"),
    Mutant(25, "a closing stays in its table", "sessions/registry.py",
           "        self._closing.discard(session)\n", "", f"{C}25_*"),
    Mutant(26, "busy is noticed late", "sessions/actor.py",
           "        self.state, self.current = SessionState.RUNNING, turn\n",
           "        self.current = turn\n", f"{C}26_*"),
    Mutant(27, "the home's epoch is not checked in the transaction", "store/sqlite.py",
           "                if self._home is not None:\n                    st.check_home(db, self._home[0])\n",
           "", f"{C}27_*"),
    Mutant(27, "a running lease can be taken", "store/statements.py",
           "    if before is not None and held and before.epoch != op.over:", "    if False:",
           f"{C}27_*"),
    Mutant(27, "a frozen holder is not ended", "succession.py",
           "    return end_all(find, [])", "    return []", "tests/acceptance/test_frozen.py"),
    Mutant(28, "the queue has no limit", "sessions/prompts.py",
           "    if session.working and session.queued >= limit:",
           "    if False:", f"{C}28_*"),
    Mutant(29, "the end of a turn does not look at the queue", "sessions/actor.py",
           "            self._announce()\n            self._next()\n            self.ports",
           "            self._announce()\n            self.ports", f"{C}29_* tests/unit/sessions/test_turns.py"),
    # The recorder's own check and the row's fence guard each other; here is the row's.
    Mutant(30, "a turn that is over still writes", "store/statements.py",
           "    if found not in b.TURN_OPEN:", "    if False:", "tests/contract/test_store.py"),
    Mutant(30, "a turn that ignores its interrupt keeps the session", "sessions/actor.py",
           "            self.abandon(turn, cause)", "            pass", f"{C}30_an*"),
    Mutant(31, "the lane waits for what hangs", "sessions/actor.py",
           "        except TimeoutError:\n            self.abandon(turn, cause)",
           "        except TimeoutError:\n            pass", f"{C}31_*"),
    Mutant(32, "a delete does not end what runs", "sessions/registry.py",
           '                self.close_nowait(session, "deleted", "user")\n'
           "                assert session.closing is not None\n"
           "                await asyncio.shield(session.closing)\n",
           "                break\n", f"{C}32_*"),
    Mutant(33, "a turn may end twice", "sessions/actor.py",
           "        if turn.ended:\n            return\n        turn.ended = True\n        if turn.recorder is not None:\n            turn.recorder.fence()\n        if turn.chore",
           "        turn.ended = True\n        if turn.recorder is not None:\n            turn.recorder.fence()\n        if turn.chore",
           f"{C}3[03]_*"),
    Mutant(34, "acknowledged before the commit", "sessions/prompts.py",
           "        await asyncio.shield(commit)\n    except asyncio.CancelledError:\n        raise  # the asker",
           "        await asyncio.sleep(0)\n    except asyncio.CancelledError:\n        raise  # the asker",
           f"{C}34_* tests/unit/sessions/test_turns.py"),
    Mutant(35, "a stop returns what is queued", "sessions/closing.py",
           '    stops, unloads = cause == "shutdown"', "    stops, unloads = False", f"{C}35_*"),
    Mutant(35, "an opening ends what is queued", "sessions/recovery.py",
           "SettleLeftovers(\"crash\", now, sid, keep_queued=True)", "SettleLeftovers(\"crash\", now, sid)",
           f"{C}35_*"),
    Mutant(36, "a stop marks nothing", "sessions/registry.py",
           "        mark_running(self.live(), self.ports.clock.wall())  # before anything is waited for\n", "",
           f"{C}36_*"),
    Mutant(36, "the mark is written when all is over", "sessions/registry.py",
           "        mark_running(self.live(), self.ports.clock.wall())  # before anything is waited for\n"
           "        try:\n            async with deadline(self.ports.clock, patience_s):\n                while self._live or self._opening:\n                    await self._drain_once(reason)\n",
           "        marked = self.live()\n"
           "        try:\n            async with deadline(self.ports.clock, patience_s):\n                while self._live or self._opening:\n                    await self._drain_once(reason)\n                mark_running(marked, 0.0)\n",
           f"{C}36_*"),
    Mutant(37, "what does not end in time stays open in the store", "app.py",
           "                await asyncio.wait([store.write(ended) for store in stores.values()])",
           "                pass", f"{C}37_*"),
    Mutant(37, "the process waits for what never ends", "cli/serve.py",
           "            os._exit(code)  # what", "            pass  # what", f"{C}37_*"),
    Mutant(37, "the kill time is below the budget", "shutdown.py",
           "    kill = total + max(KILL_MARGIN_S, total / 4)", "    kill = total - 1", f"{C}37_*"),
    Mutant(37, "a turn that ignores its end has none that anybody sees", "app.py",
           '                session.abandon(session.current, "shutdown")', "                pass", f"{C}37_*"),
    Mutant(38, "a mark of any age starts work", "sessions/recovery.py",
           "    if age_s > limits.max_age_s:", "    if False:", f"{C}38_*"),
    Mutant(38, "whatever was marked goes on", "sessions/recovery.py",
           ' if t.state == "interrupted" and t.cause in CUT_BY)', ")", f"{C}38_*"),
    Mutant(39, "an attempt is not counted", "sessions/recovery.py",
           "attempts=cut.attempts + 1", "attempts=1", f"{C}39_*"),
    Mutant(39, "an attempt of a queued prompt is not stored", "sessions/recovery.py",
           'PatchTurn(head.id, {"attempts": head.attempts})', "PatchTurn(head.id, {})", f"{C}39_*"),
    Mutant(41, "a lease is waited out whoever held it", "app.py",
           "        return not is_alive(Identity(known.pid, known.start_time, known.boot_id))",
           "        return False", f"{C}41_*"),
    Mutant(41, "a pid alone says that the holder lives", "processes/procfs.py",
           "        and stat.start_time == identity.start_time\n        and identity.boot_id", "        and identity.boot_id",
           f"{C}41_*"),
    Mutant(53, "what somebody stops is news", "tools/background.py",
           "        job.stopped = job.process.returncode is None", "        job.stopped = False", f"{C}53_*"),
    Mutant(53, "a note makes a turn go on", "agent/loop.py",
           "        storing = self.ports.steered()",
           "        storing = self.ports.steered() or self.ports.noted()", f"{C}53_*"),
    Mutant(54, "a note is not stored", "sessions/notes.py",
           "[InsertNote(row)]", "[]", f"{C}54_*"),
    Mutant(54, "that a note was told is not stored with it", "sessions/notes.py",
           "turn.recorder.note(text, [delivered], settled)",
           "turn.recorder.note(text, [], settled)", f"{C}54_*"),
    Mutant(54, "a note whose write has failed is lost", "sessions/notes.py",
           "            if not stored:", "            if False:", f"{C}54_*"),
    Mutant(55, "a stored session is loaded from the default store", "sessions/registry.py",
           "        row = await ports.store.session(session_id)",
           "        row = await self.ports.store.session(session_id)", f"{C}55_*"),
    Mutant(55, "every profile has the home's database", "compose.py",
           "open_store(scope, start.home.profile(name))", "open_store(scope, start.home)", f"{C}55_*"),
    Mutant(55, "an id is enough, whatever profile is asked for", "sessions/registry.py",
           '    if params.profile not in ("", profile):', "    if False:", f"{C}55_*"),
    Mutant(42, "a running turn takes over what has changed", "sessions/configured.py",
           "    if session.state is not SessionState.IDLE:\n        return False\n    session.ports.look()\n",
           "    session.ports.look()\n    session.questions.follow(session.ports.config().approvals)\n    if session.state is not SessionState.IDLE:\n        return False\n",
           f"{C}42_*"),
    Mutant(42, "rules and limits are those of the session's start", "sessions/running.py",
           "    session.questions.follow(config.approvals)\n", "", f"{C}42_*"),
    Mutant(42, "what waited behind a change runs on the old agent", "sessions/actor.py",
           "            if is_outdated(self):", "            if False:", f"{C}42_*"),
    Mutant(42, "an invalid file is in force all the same", "reload.py",
           "            return self._refuse(exc.message)",
           "            self.config = self._on_top(Config())\n            return self._refuse(exc.message)", f"{C}42_*"),
    Mutant(42, "a change during the reading is missed", "reload.py",
           "        self._seen = stamp\n        try:\n            config = self._on_top(self._read().config)",
           "        try:\n            config = self._on_top(self._read().config)\n            self._seen = tuple(map(_stamp, self._files))",
           f"{C}42_*"),
    Mutant(44, "a reattach only goes on from now", "rpc/handlers/attach.py",
           "        attachment.listener.publish(event)\n    attachment.skip_to",
           "        pass\n    attachment.skip_to", f"{C}44_*"),
    Mutant(44, "what streams is not marked", "sessions/journal.py",
           "EventParams(kind, self.session_id, payload, transient=True)",
           "EventParams(kind, self.session_id, payload)", f"{C}44_*"),
    Mutant(45, "a partial replay passes for a whole one", "rpc/handlers/attach.py",
           "    if missed and missed.more:", "    if False:", f"{C}45_*"),
    Mutant(45, "a hole in the log is not noticed", "sessions/replay.py",
           "        if not near or near[0].seq != last + 1:", "        if not near:", f"{C}45_*"),
    Mutant(45, "a cursor means something in any epoch", "sessions/replay.py",
           "    if epoch != journal.epoch or not 0 <= seq <= journal.last_seq:", "    if False:",
           f"{C}45_* tests/rpc/test_session_attach.py"),
    Mutant(46, "the cursor is not looked at", "sessions/replay.py",
           "    last = seq\n", "    last = 0\n", f"{C}46_*"),
    Mutant(47, "only the first subscriber hears", "sessions/attachments.py",
           "        for lease in tuple(self._bound):\n            lease.value.publish(event)",
           "        for lease in tuple(self._bound)[:1]:\n            lease.value.publish(event)",
           f"{C}47_*"),
    Mutant(48, "a peer that takes nothing is kept for ever", "rpc/connection.py",
           "        self._transport.abort()\n", "", f"{C}48_*"),
    Mutant(49, "what waits for a peer has no limit", "rpc/outbox.py",
           "        if self._bytes > EVENT_BYTES_MAX or stalled:", "        if False:",
           f"{C}49_* {C}48_*"),
    Mutant(50, "a burst is not merged", "rpc/outbox.py",
           "        elif merged is not None:", "        elif False:", f"{C}50_*"),
    Mutant(50, "the stream runs ahead of the store", "agent/stream.py",
           "                await journal.caught_up()\n", "", f"{C}48_* {C}49_*"),
    Mutant(57, "an answer goes to the first question, whatever it names", "sessions/questions.py",
           "            picked = [e for e in picked if e.request_id == request_id]\n", "", f"{C}57_*"),
    Mutant(57, "a second answer overtakes the first", "sessions/questions.py",
           "        while entry.deciding is not None:", "        while False:", f"{C}57_*"),
    Mutant(57, "the end of a turn voids an answer that is being stored", "sessions/questions.py",
           "        if entry.deciding is None:\n            self._void(entry)",
           "        if True:\n            self._void(entry)", f"{C}57_*"),
    Mutant(57, "anybody may answer", "sessions/questions.py",
           "    if entry.principal != principal:", "    if False:", f"{C}57_*"),
    Mutant(58, "a late client is not told what waits", "sessions/replay.py",
           '        "pending_questions": session.questions.pending,', '        "pending_questions": [],',
           f"{C}58_*"),
    Mutant(58, "a client that reads events only is not shown the question", "rpc/handlers/attach.py",
           "    entry = session.questions.shown\n    if entry is not None:",
           "    entry = session.questions.shown\n    if False:", f"{C}58_*"),
    Mutant(58, "the question after another has no number", "sessions/questions.py",
           "            self._journal.record_nowait([], [next(iter(self._open.values())).request])",
           "            self._journal.transient(*next(iter(self._open.values())).request)", f"{C}58_*"),
    Mutant(60, "where nobody can be asked everything is allowed", "sessions/questions.py",
           '            return Decision("deny", _NOBODY)', '            return Decision("once")', f"{C}60_*"),
    Mutant(60, "the record of a turn does not say who let it pass", "sessions/actor.py",
           '"bypass": self.questions.bypass}', '"bypass": ""}', f"{C}60_*"),
    Mutant(60, "what a session was allowed is allowed always", "sessions/questions.py",
           "            self._granted = {**(self._granted or {}), entry.request_id: entry.grants}\n        elif",
           "            entry.granted = self._grants.add(entry.grants)\n        elif", f"{C}60_*"),
    Mutant(60, "grants that cannot be read are none", "sessions/grants.py",
           '            raise ConfigError(f"{path} cannot be read ({exc}); mend or remove it.") from None',
           "            return cls(path)", f"{C}60_*"),
    Mutant(51, "a model that never pauses keeps the loop", "agent/stream.py",
           "            if answer.chars - yielded > TURN_OF_OTHERS_CHARS:", "            if False:",
           f"{C}51_*"),
    Mutant(52, "children are labelled with the gateway alone", "tools/shell.py",
           "        owner=ctx.session_id,\n", '        owner="gateway",\n', f"{C}52_*"),
    Mutant(86, "a summary is tried for ever", "agent/loop.py",
           '            self.may_summarize = done.how == "summary"  # else not again in this turn\n',
           "", f"{C}86_*"),
    Mutant(92, "a key in the store is not looked for", "sessions/prompts.py",
           "                return self._again(row, body) if row else None",
           "                return None", f"{C}92_*"),
    Mutant(92, "a key is not remembered", "sessions/prompts.py",
           "        session.receipts.keep(key, body, accepted, commit)", "        pass", f"{C}92_*"),
    Mutant(61, "only the direct child is ended", "processes/containment.py",
           "    return [stat for stat in with_descendants(first, later) if stat.pid not in spared]",
           "    return [stat for stat in first if stat.pid == root.pid]", f"{C}61_*"),
    Mutant(62, "ended by label alone, the sibling's too", "processes/containment.py",
           "            and read_label(stat.pid, LABEL) == root.label",
           "            and read_label(stat.pid, LABEL)", f"{C}62_* tests/unit/processes"),
    Mutant(65, "the guard ends nothing", "processes/guard.py",
           "        end_descendants()\n        _die_like", "        _die_like", f"{C}65_*"),
    Mutant(66, "a cancelled opener cancels the build", "lifecycle/lease.py",
           "        self._abandoned = True\n        elif", "        self._abandoned = True\n            self._task.cancel()\n        elif",
           f"{C}66_*"),
    Mutant(67, "who ignores the polite stop stays", "processes/containment.py",
           "    return _end_by(find, signal.SIGKILL, kill_s)", "    return find()", f"{C}67_*"),
    Mutant(68, "orphans are not reaped", "processes/watch.py",
           "                os.waitpid(stat.pid, os.WNOHANG)", "                pass", f"{C}68_*"),
    Mutant(69, "a child inherits our input", "processes/spawn.py",
           'stdin=subprocess.PIPE if stdin == "pipe" else subprocess.DEVNULL',
           'stdin=subprocess.PIPE if stdin == "pipe" else None', f"{C}69_*"),
    Mutant(70, "what a command prints is kept whole on disk", "tools/output.py",
           "        room = SPILL_BYTES_MAX - self._written - len(self._unwritten)", "        room = 1 << 62",
           f"{C}70_*"),
    Mutant(82, "descriptors are not counted before admission", "sessions/registry.py",
           "        check_descriptors()\n", "", f"{C}82_*"),
    Mutant(82, "one reader for each read", "store/sqlite.py",
           "        if self._idle_readers == 0 and len(self._readers) < READERS_MAX:",
           "        if True:", f"{C}82_* tests/unit/store/test_sqlite.py"),
    Mutant(82, "a closed session keeps its profile open", "sessions/registry.py",
           "        self.profiles.let_go(session.ports.profile, session.id)  # its last write is stored\n", "",
           f"{C}82_* {C}06_*"),
    Mutant(83, "the home is not locked", "home.py",
           "            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)\n        except BlockingIOError:",
           "            pass\n        except BlockingIOError:", f"{C}83_*"),
    Mutant(83, "a vanished log goes unnoticed", "store/sqlite.py",
           "            log.check()\n", "", "tests/unit/store/test_sqlite.py"),
    Mutant(84, "the schema is read by hand", "store/revision.py",
           "    if not database.exists() or database.stat().st_size == 0:\n        return None",
           "    if not database.exists() or not database.read_bytes()[:16]:\n        return None", f"{C}84_*"),
    Mutant(87, "what was being written when the gateway was killed stays", "checkpoints/keeper.py",
           "bytes=self._blobs.empty_tmp()", "bytes=0", f"{C}87_*"),
    Mutant(87, "contents that no checkpoint needs stay", "checkpoints/keeper.py",
           "            self._blobs.remove(digest)\n", "", f"{C}87_*"),
    Mutant(87, "files have an age and no size", "sessions/upkeep.py",
           "        if old or over:", "        if old:", f"{C}87_*"),
    Mutant(87, "events of ended sessions stay", "store/statements.py",
           "    db.execute(sa.delete(events).where(events.c.session_id.in_(found)))\n", "",
           f"{C}87_* tests/contract/test_store.py"),
    Mutant(87, "a full disk is any error", "store/sqlite.py",
           '    if "disk is full" in text or', "    if False or", f"{C}87_*"),
    Mutant(88, "histories have no budget", "sessions/reaper.py",
           "        return held > limits.history_mib << 20", "        return False", f"{C}88_*"),
    Mutant(88, "a history that is gone counts on", "sessions/journal.py",
           "        self._budget.charge(count)\n", "        self._budget.charge(max(0, count))\n",
           f"{C}88_*"),
    Mutant(89, "bindings outlive their session", "sessions/closing.py",
           "    session.attachments.clear()\n", "", f"{C}89_* {C}04_*"),
    Mutant(89, "what a connection was told piles up", "rpc/connection.py",
           "deque(maxlen=TOLD_LAZY_MAX)", "deque()", f"{C}89_*"),
    Mutant(89, "merged text is counted twice", "rpc/outbox.py",
           'len(event.payload["text"]) if merged else _weight(event.payload)',
           "_weight(event.payload)", f"{C}89_* {C}03_*"),
    Mutant(94, "the origin is not checked", "transports/admission.py",
           "        if knock.origin is not None and not self._origin_allowed(knock.origin, knock.host):",
           "        if False:", f"{C}94_*"),
    Mutant(94, "the host is not checked", "transports/admission.py",
           "        if host not in _LOCAL_NAMES and host not in self._hosts:", "        if False:",
           f"{C}94_*"),
    Mutant(94, "loopback is not throttled", "transports/admission.py",
           "        if len(recent) > BAD_TOKENS_MAX:", "        if False:", f"{C}94_*"),
    Mutant(95, "a link to anywhere gets the home's token", "cli/attach.py",
           "    if not token and note is not None and note.url == url and is_held(where.home):",
           "    if not token and note is not None:", f"{C}95_*"),
    Mutant(96, "logs are not redacted", "logs.py",
           "self._redactor(record.getMessage())", "record.getMessage()", f"{C}96_* tests/unit/test_logs.py"),
    Mutant(96, "what a command prints of its secrets reaches the model", "tools/output.py",
           "        if not self._secrets:\n            return piece", "        return piece",
           "tests/rpc/test_secret_respond.py"),
    Mutant(97, "a restore follows a link out of the folder", "checkpoints/walk.py",
           "os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC", "os.O_DIRECTORY | os.O_CLOEXEC",
           "tests/unit/checkpoints"),
    Mutant(97, "links are followed out of the folder", "tools/paths.py",
           "O_NOFOLLOW", "O_CLOEXEC", f"{C}97_* tests/unit/tools/test_paths.py"),
)  # fmt: skip


def survives(mutant: Mutant, folder: Path) -> bool:
    """Whether the tests pass with the guard removed."""
    source = folder / "src"
    shutil.copytree(ROOT / "src", source, ignore=shutil.ignore_patterns("__pycache__"))
    file = source / "tenure" / mutant.file
    text = file.read_text()
    assert mutant.old in text, f"case {mutant.case}: {mutant.file} has changed; mend the table"
    file.write_text(text.replace(mutant.old, mutant.new))
    paths = [str(p) for pattern in mutant.tests.split() for p in sorted(ROOT.glob(pattern))]
    command = [sys.executable, "-m", "pytest", "-q", "-x", "--timeout=40", *paths]
    command += ["--timeout-method=thread", "-p", "no:cacheprovider"]
    environ = {**os.environ, "PYTHONPATH": str(source)}
    try:
        done = subprocess.run(
            command, cwd=ROOT, env=environ, capture_output=True, timeout=TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        return False  # a hang is noticed, too
    return done.returncode == 0


def main() -> int:
    """Try the mutants of the cases named, or all; the number that survived."""
    wanted = {int(a) for a in sys.argv[1:]}
    alive = 0
    for mutant in MUTANTS:
        if wanted and mutant.case not in wanted:
            continue
        with tempfile.TemporaryDirectory() as folder:
            lives = survives(mutant, Path(folder))
        alive += lives
        verdict = "SURVIVED" if lives else "killed  "
        print(f"{verdict} case {mutant.case:>2}: {mutant.about}", flush=True)
    print(f"{alive} survived")
    return alive


if __name__ == "__main__":
    raise SystemExit(main())
