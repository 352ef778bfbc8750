"""Who listens to a session: connections, each with a bounded outbox of its own.

An attachment is a lease in its connection's scope, so a connection that ends detaches only what it
attached itself; nobody else's binding can be touched by a late disconnect.
"""

from __future__ import annotations

from typing import Protocol

from tenure.lifecycle.lease import Lease
from tenure.lifecycle.scope import Scope
from tenure.protocol.messages import EventParams


class Listener(Protocol):
    """The connection's side: takes events and never waits."""

    def publish(self, event: EventParams) -> None:
        """Queue `event` for the peer. Overflow is the listener's own problem."""


class Attachment:
    """One connection listening to one session.

    Attributes:
        listener: where events go.
        close_on_disconnect: close the session when this attachment ends by disconnect.
    """

    __slots__ = ("close_on_disconnect", "listener")

    def __init__(self, listener: Listener, *, close_on_disconnect: bool) -> None:
        self.listener = listener
        self.close_on_disconnect = close_on_disconnect


class Attachments:
    """The attachments of one session."""

    __slots__ = ("_bound",)

    def __init__(self) -> None:
        self._bound: dict[int, Attachment] = {}

    def __len__(self) -> int:
        return len(self._bound)

    def attach(
        self, listener: Listener, owner: Scope, session_id: str, *, close_on_disconnect: bool
    ) -> Lease[Attachment]:
        """Bind `listener`; attaching the same one again only updates its flag.

        Args:
            listener: where events go from now on.
            owner: the connection's scope; its end detaches.
            session_id: for the census.
            close_on_disconnect: see `Attachment`.

        Raises:
            ScopeClosed: the connection is ending.
        """
        attachment = Attachment(listener, close_on_disconnect=close_on_disconnect)
        lease = owner.own("attachment", attachment, self._detach, label=session_id)
        for key, bound in list(self._bound.items()):
            if bound.listener is listener:
                del self._bound[key]
        self._bound[lease.key] = attachment
        return lease

    def _detach(self, attachment: Attachment) -> None:
        for key, bound in list(self._bound.items()):
            if bound is attachment:
                del self._bound[key]

    def holds(self, attachment: Attachment) -> bool:
        """Whether it is still bound (and not replaced by a later one)."""
        return any(bound is attachment for bound in self._bound.values())

    def publish(self, event: EventParams) -> None:
        """Hand `event` to everyone. Never waits, never fails."""
        for attachment in tuple(self._bound.values()):
            attachment.listener.publish(event)

    def clear(self) -> None:
        """The session is over; nothing more is published."""
        self._bound.clear()
