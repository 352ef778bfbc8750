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
        self._bound: list[Lease[Attachment]] = []

    def __len__(self) -> int:
        return len(self._bound)

    def attach(
        self,
        listener: Listener,
        owner: Scope,
        session_id: str,
        *,
        close_on_disconnect: bool | None = None,
    ) -> Lease[Attachment]:
        """Bind `listener`; attaching the same one again only updates its flag, if that is given.

        Args:
            listener: where events go from now on.
            owner: the connection's scope; its end detaches.
            session_id: for the census.
            close_on_disconnect: see `Attachment`.

        Raises:
            ScopeClosed: the connection is ending.
        """
        for lease in self._bound:
            if lease.value.listener is listener:
                if close_on_disconnect is not None:
                    lease.value.close_on_disconnect = close_on_disconnect
                return lease
        attachment = Attachment(listener, close_on_disconnect=bool(close_on_disconnect))
        bound = owner.own("attachment", attachment, self._detach, label=session_id)
        self._bound.append(bound)
        return bound

    def _detach(self, attachment: Attachment) -> None:
        self._bound = [lease for lease in self._bound if lease.value is not attachment]

    def heard_by(self, listener: Listener) -> bool:
        """Whether `listener` is attached."""
        return any(lease.value.listener is listener for lease in self._bound)

    def ends_with(self, listener: Listener) -> bool:
        """Whether the session is to be closed when `listener` disconnects.

        Only if it alone listens, and asked for that: a session taken over elsewhere is not its to
        close. Whoever is on its way out does not listen: two that leave at one moment must not
        leave the session to each other.
        """
        heard = [one for one in self._bound if one.owner.admits]
        return len(heard) == 1 and (
            heard[0].value.listener is listener and heard[0].value.close_on_disconnect
        )

    def publish(self, event: EventParams) -> None:
        """Hand `event` to everyone. Never waits, never fails."""
        for lease in tuple(self._bound):
            lease.value.listener.publish(event)

    def clear(self) -> None:
        """The session is over: nothing more is published, and no connection holds a binding."""
        for lease in tuple(self._bound):
            lease.release_nowait()
