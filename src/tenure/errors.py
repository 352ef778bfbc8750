"""Every error that Tenure raises on purpose, as one tree.

    TenureError
    ├── ProtocolError              the peer wrote something wrong
    │   ├── ParseError             -32700  not JSON
    │   ├── InvalidRequest         -32600  JSON, but no JSON-RPC request
    │   ├── MethodNotFound         -32601
    │   └── InvalidParams          -32602  params of the wrong shape
    ├── RequestRefused             the request is well-formed and the answer is no
    │   ├── Unauthorized           4401
    │   ├── NotFound               4007
    │   │   └── SessionNotFound    4001
    │   ├── Conflict               4009
    │   │   ├── SessionBusy        4009
    │   │   ├── SessionClosing     4011
    │   │   ├── AlreadyDecided     4012
    │   │   └── AlreadyRuns        4014  the prompt does not wait any more
    │   ├── Overloaded             4029  a stated limit is reached; later may work
    │   ├── ReadOnly               4403  this connection only watches the session
    │   ├── TooLarge               4013
    │   └── BadValue               4002
    ├── ModelError                 5032  a model or its provider failed
    │   ├── ModelUnauthorized      5033  the credential is missing or refused
    │   ├── ModelOverloaded        5034  rate limit or overload at the provider
    │   ├── ModelGarbage           5035  the answer cannot be understood
    │   └── ModelBlind             5036  this model does not take what came with the prompt
    ├── ToolError                  5040  becomes a tool result, never ends a turn
    │   ├── ToolDenied             5041  a rule or a person said no
    │   ├── AddressRefused         5042  that address of the network is not reached
    │   └── BrowserGone            5043  the browser has ended; what it was doing is unknown
    ├── StoreError                 5050
    │   ├── StoreFull              5051  no space left
    │   ├── LeaseLost              5052  a newer owner exists; stop writing
    │   └── SchemaTooNew           5053
    ├── TransportError             5060  the connection is gone; never sent over the wire
    ├── LifecycleError             5070
    │   ├── ScopeClosed            5071  nothing can be acquired here any more
    │   └── LeaseClosed            5072  the lease was released or is being released
    ├── ProcessError               5080  a child process could not be started or controlled
    │   └── SandboxUnavailable     5081  the sandbox that is wanted cannot be had here
    ├── ConfigError                5001  the configuration is wrong (exit code 2)
    └── InternalError             -32603  a fault of ours, told with an id

Classes are named by what the caller must now do. Cancellation is not in the tree. A message is one
sentence: what, where, what to do.
"""

from __future__ import annotations

from typing import ClassVar


class TenureError(Exception):
    """Root of the tree.

    Attributes:
        code: number on the wire (JSON-RPC ``error.code``).
        retryable: whether the same call may work later without a change.
        message: one sentence for a person.
    """

    code: ClassVar[int] = -32603
    retryable: ClassVar[bool] = False

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class ProtocolError(TenureError):
    """The peer wrote something wrong."""

    code = -32600


class ParseError(ProtocolError):
    """The frame is not JSON."""

    code = -32700


class InvalidRequest(ProtocolError):
    """The frame is JSON but no JSON-RPC request."""

    code = -32600


class MethodNotFound(ProtocolError):
    """No such method."""

    code = -32601


class InvalidParams(ProtocolError):
    """The params have the wrong shape."""

    code = -32602


class RequestRefused(TenureError):
    """The request is well-formed and the answer is no."""

    code = 4000


class Unauthorized(RequestRefused):
    """The credential is missing or wrong."""

    code = 4401


class ReadOnly(RequestRefused):
    """This connection is attached as a viewer; only an owner changes or ends a session."""

    code = 4403


class NotFound(RequestRefused):
    """The named thing does not exist (or is not visible to this peer)."""

    code = 4007


class SessionNotFound(NotFound):
    """No live session has this id; ``session.resume`` opens a stored one."""

    code = 4001


class Conflict(RequestRefused):
    """The state of the thing forbids this now."""

    code = 4009
    retryable = True


class SessionBusy(Conflict):
    """A turn is running and the request needs an idle session. The text contains "session busy"."""

    code = 4009
    retryable = True


class SessionClosing(Conflict):
    """The session is being closed; nothing more is admitted."""

    code = 4011
    retryable = False


class AlreadyRuns(Conflict):
    """The prompt does not wait in the queue (any more), so it cannot be changed."""

    code = 4014
    retryable = False


class AlreadyDecided(Conflict):
    """The question was answered or has expired."""

    code = 4012
    retryable = False


class Overloaded(RequestRefused):
    """A stated limit is reached; later may work."""

    code = 4029
    retryable = True


class TooLarge(RequestRefused):
    """The input is over a stated limit."""

    code = 4013


class BadValue(RequestRefused):
    """A value is outside what this method accepts."""

    code = 4002


class ModelError(TenureError):
    """A model or its provider failed.

    Attributes:
        provider: name of the provider, as in ``provider:name``.
        status: HTTP status, or None where there was none.
    """

    code = 5032

    def __init__(self, message: str, *, provider: str = "", status: int | None = None) -> None:
        super().__init__(message)
        self.provider = provider
        self.status = status


class ModelUnauthorized(ModelError):
    """The credential is missing or was refused."""

    code = 5033


class ModelOverloaded(ModelError):
    """The provider is rate-limiting, overloaded or unreachable.

    Attributes:
        retry_after_s: the provider's own hint in seconds, or None.
    """

    code = 5034
    retryable = True

    def __init__(
        self,
        message: str,
        *,
        provider: str = "",
        status: int | None = None,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(message, provider=provider, status=status)
        self.retry_after_s = retry_after_s


class ModelGarbage(ModelError):
    """The provider's answer cannot be understood."""

    code = 5035


class ModelBlind(ModelError):
    """This model does not take what came with the prompt; another one may."""

    code = 5036


class ToolError(TenureError):
    """A tool failed; its message becomes the tool result."""

    code = 5040


class ToolDenied(ToolError):
    """A rule or a person said no."""

    code = 5041


class AddressRefused(ToolError):
    """That address of the network is not reached unless the configuration allows it."""

    code = 5042


class BrowserGone(ToolError):
    """The browser has ended under a call; the outcome is unknown, the next call gets another."""

    code = 5043


class StoreError(TenureError):
    """The store failed."""

    code = 5050


class StoreFull(StoreError):
    """No space is left where the store lives."""

    code = 5051
    retryable = True


class LeaseLost(StoreError):
    """A newer owner holds this row; the writer must stop."""

    code = 5052


class SchemaTooNew(StoreError):
    """The database was written by a newer release."""

    code = 5053


class TransportError(TenureError):
    """The connection is gone. Never sent over the wire."""

    code = 5060


class LifecycleError(TenureError):
    """Misuse or end of an owned thing."""

    code = 5070


class ScopeClosed(LifecycleError):
    """The scope admits nothing any more."""

    code = 5071


class LeaseClosed(LifecycleError):
    """The lease was released or is being released."""

    code = 5072


class ProcessError(TenureError):
    """A child process could not be started or controlled."""

    code = 5080


class SandboxUnavailable(ProcessError):
    """The sandbox that is wanted cannot be had here; want another one, or mend this."""

    code = 5081


class ConfigError(TenureError):
    """The configuration is wrong; commands end with exit code 2."""

    code = 5001


class InternalError(TenureError):
    """A fault of ours, told with an id that ``tenure logs`` finds.

    Attributes:
        error_id: the id under which the log holds the details.
    """

    code = -32603

    def __init__(self, message: str, *, error_id: str = "") -> None:
        super().__init__(message)
        self.error_id = error_id
