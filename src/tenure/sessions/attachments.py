"""Who listens to a session: connections, each in a role, each with a bounded outbox of its own.

An attachment is a lease in its connection's scope, so a connection that ends detaches only what it
attached itself. It carries an epoch, counted per session: a detach or disconnect that was meant for
an earlier attachment finds another epoch and does nothing.

A client that comes late first gets a snapshot or the events that it missed. Until that answer is
out, what is published meanwhile is held; then it follows, each event once.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Protocol

from tenure.clock import Clock
from tenure.lifecycle.lease import Lease
from tenure.lifecycle.scope import Scope
from tenure.protocol.messages import EventParams


class Listener(Protocol):
    """The connection's side: takes events and never waits."""

    def publish(self, event: EventParams) -> None:
        """Queue `event` for the peer. Overflow is the listener's own problem."""

    def overflow(self) -> None:
        """More waits for the peer than may wait: tell it and drop it, alone."""


ATTACHMENT = "attachment"
"""The kind of these leases in the census; their label is the session's id."""
HELD_MAX = 10_000
"""Events that may be held while an answer is being made; over it the peer is dropped."""


class Role(enum.Enum):
    """What an attachment may do."""

    OWNER = "owner"
    """Change and end the session."""
    VIEWER = "viewer"
    """Watch; whatever it does, the session goes on."""


class Attachment:
    """One connection listening to one session.

    Attributes:
        listener: where events go.
        role: what it may do.
        epoch: which attachment of this session it is; never reused while the session lives.
        close_on_disconnect: close the session when this attachment ends by disconnect.
        told: the peer has been answered that it listens, or is about to be.
        answers: how many answers have told the peer where it is; the last one counts.
    """

    __slots__ = (
        "_after", "_held", "_holds", "answers", "close_on_disconnect", "epoch", "listener", "role",
        "told",
    )  # fmt: skip

    def __init__(self, listener: Listener, epoch: int) -> None:
        self.listener = listener
        self.epoch = epoch
        self.role = Role.OWNER
        self.close_on_disconnect = False
        self._holds = 0
        self._held: list[EventParams] | None = None
        self._after = 0
        self.told = True
        self.answers = 0

    def publish(self, event: EventParams) -> None:
        """Hand `event` on, once its predecessors are out. Never waits."""
        if self._held is not None:
            self._held.append(event)
            if len(self._held) > HELD_MAX:
                self._held.clear()
                self.listener.overflow()
        elif not event.seq or event.seq > self._after:
            self.listener.publish(event)

    def hold(self) -> None:
        """Keep what is published from now on, until `let_go` was called as often."""
        self._holds += 1
        self._held = self._held or []

    def forget_held(self, seq: int) -> None:
        """A snapshot that was just taken contains what was held, up to event `seq`."""
        self._held = [event for event in self._held or () if event.seq > seq]

    def skip_to(self, seq: int) -> None:
        """The peer has every event up to `seq`; none of them is sent again."""
        self._after = max(self._after, seq)

    def let_go(self) -> None:
        """The answer is out: pass on what was held."""
        self._holds -= 1
        if not self._holds:
            held, self._held = self._held, None
            for event in (held or ()) if self.told else ():
                self.publish(event)


class Attachments:
    """The attachments of one session.

    Attributes:
        left_at: monotonic seconds, when the last one ended (or nobody had come yet).
    """

    __slots__ = ("_bound", "_clock", "_epoch", "_session_id", "left_at", "on_empty")

    def __init__(self, clock: Clock) -> None:
        self._bound: list[Lease[Attachment]] = []
        self._clock = clock
        self._epoch = 0
        self._session_id = ""
        self.left_at = clock.monotonic()
        self.on_empty: Callable[[str], None] | None = None
        """Told when the last one has ended."""

    def __len__(self) -> int:
        return len(self._bound)

    def attach(
        self,
        listener: Listener,
        owner: Scope,
        session_id: str,
        *,
        role: Role = Role.OWNER,
        close_on_disconnect: bool | None = None,
    ) -> Lease[Attachment]:
        """Bind `listener`. Attaching the same one again only updates role and flag.

        Args:
            listener: where events go from now on.
            owner: the connection's scope; its end detaches.
            session_id: for the census.
            role: what it may do from now on.
            close_on_disconnect: see `Attachment`; None leaves what was said before.

        Raises:
            ScopeClosed: the connection is ending.
        """
        lease = self.of(listener)
        self._session_id = session_id
        if lease is None:
            self._epoch += 1
            attachment = Attachment(listener, self._epoch)
            lease = owner.own(ATTACHMENT, attachment, self._detach, label=session_id)
            self._bound.append(lease)
        lease.value.role = role
        if close_on_disconnect is not None:
            lease.value.close_on_disconnect = close_on_disconnect
        return lease

    def _detach(self, attachment: Attachment) -> None:
        self._bound = [lease for lease in self._bound if lease.value is not attachment]
        self.left_at = self._clock.monotonic()
        if not self._bound and self.on_empty is not None:
            self.on_empty(self._session_id)

    def detach(self, listener: Listener, epoch: int = 0) -> bool:
        """End the attachment of `listener`; the session goes on.

        Args:
            listener: whose.
            epoch: which one is meant, if it must be that; 0 for whichever there is.

        Returns:
            Whether there was one.
        """
        lease = self.of(listener)
        if lease is None or epoch not in (0, lease.value.epoch):
            return False
        lease.release_nowait()
        return True

    def of(self, listener: Listener) -> Lease[Attachment] | None:
        """The attachment of `listener`, if it has one."""
        return next((lease for lease in self._bound if lease.value.listener is listener), None)

    def owned_by(self, listener: Listener) -> bool:
        """Whether `listener` is attached as owner."""
        lease = self.of(listener)
        return lease is not None and lease.value.role is Role.OWNER

    def left_by(self, attachment: Attachment) -> bool:
        """Whether the session is to be closed because `attachment` ends by disconnect.

        Decided at the moment of acting, never before: it must still be bound, have asked for that,
        and no other owner may listen. A viewer's leaving ends nothing. Whoever is on its way out
        itself does not listen: two that leave at one moment must not leave the session to each
        other.
        """
        if attachment.role is Role.VIEWER or not attachment.close_on_disconnect:
            return False
        others = [b for b in self._bound if b.value is not attachment and b.owner.admits]
        return len(others) < len(self._bound) and not any(
            b.value.role is Role.OWNER for b in others
        )

    def publish(self, event: EventParams) -> None:
        """Hand `event` to everyone. Never waits, never fails."""
        for lease in tuple(self._bound):
            lease.value.publish(event)

    def clear(self) -> None:
        """The session is over: nothing more is published, and no connection holds a binding."""
        for lease in tuple(self._bound):
            lease.release_nowait()
