"""`tenure chat`: a conversation in the terminal. Speaks only the wire.

The prompt line stays usable for the next input while a turn streams above it. Ctrl-C interrupts the
turn, Ctrl-D leaves. A gateway that goes away is replaced: the chat attaches to the next one (or
becomes one itself) and resumes its session.
"""

from __future__ import annotations

from prompt_toolkit.patch_stdout import patch_stdout
from rich.console import Console

from tenure.cli.attach import Where, attach
from tenure.cli.line import Line
from tenure.cli.seen import Seen
from tenure.cli.show import Show
from tenure.cli.starter import ensure_model
from tenure.cli.talk import Talk, Wish
from tenure.clock import Clock, SystemClock
from tenure.config import Home
from tenure.home import is_held, read_note
from tenure.lifecycle.scope import Scope
from tenure.transports.base import TransportClosed

ANOTHER_S = 5.0
"""How long a chat whose gateway has gone waits for the next one, in seconds."""
ENDING_S = 60.0
"""How long it waits at most for the end of the old one."""
PAUSE_S = 0.1


async def chat(where: Where, wish: Wish, session: str) -> int:
    """Talk until Ctrl-D or /quit; the exit code.

    The prompt line comes first: a gateway of one's own opens while the person types.
    """
    if not session:  # a session that goes on has its model
        await ensure_model(where, yes=wish.yes, quiet=False)
    where.home.prepare()
    console = Console(highlight=False)
    scope = Scope.root("chat", SystemClock())
    show, seen = Show(console), Seen()
    line = Line(where.own.root / "chat_history", scope, above=lambda: show.unfinished)
    try:
        with patch_stdout(raw=True):
            scope.spawn(line.read(), name="prompt")
            while True:
                async with attach(where) as attached:
                    talk = Talk(attached, where, show, line, seen, wish)
                    session = await talk.open(session)
                    wish = wish._replace(plan=False)  # said once; what is off since stays so
                    try:
                        return await talk.run()
                    except TransportClosed:
                        console.print("[dim]the gateway is gone; attaching again …[/]")
                        session = talk.session
                if attached.embedded is None and not where.connect:
                    await wait_for_another(where.home, SystemClock())
    finally:
        await scope.close("chat over")


async def wait_for_another(home: Home, clock: Clock) -> None:
    """Leave the home to a gateway that is started again, before becoming one oneself.

    One that holds the home and has no note is ending, or beginning: it counts as neither gone nor
    there. Taking the home the moment it lets go would shut out the one that follows it.
    """
    free = held = 0
    while free < ANOTHER_S / PAUSE_S and held < ENDING_S / PAUSE_S:
        if not is_held(home):
            free += 1
        elif read_note(home) is None:
            held += 1
        else:
            return
        await clock.sleep(PAUSE_S)
