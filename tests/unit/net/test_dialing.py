"""Names are resolved once, and what was judged is what is dialled."""

import asyncio

import pytest

from tenure.errors import AddressRefused, ToolError
from tenure.net import dialing
from tenure.net.addresses import AddressRules
from tenure.net.dialing import LOOKUPS_MAX, RESOLVE_S, Dialer, Lookups
from tenure.testing.clock import ManualClock, settle


class Names:
    """A name server whose answers change from one look to the next."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.asked = 0

    async def __call__(self, host, port):
        self.asked += 1
        return self.answers.pop(0)


async def test_a_name_is_looked_up_once_for_a_connection():
    names = Names(["93.184.216.34"], ["127.0.0.1"])
    dialed = []

    async def connect(address):
        dialed.append(address)
        return address

    dialer = Dialer(AddressRules(), ManualClock(), names)
    assert await dialer.dial("rebind.test", 80, connect) == "93.184.216.34"
    assert (dialed, names.asked) == (["93.184.216.34"], 1)
    with pytest.raises(AddressRefused):
        await dialer.dial("rebind.test", 80, connect)
    assert dialed == ["93.184.216.34"]


async def test_one_bad_address_among_good_ones_refuses_the_name():
    dialer = Dialer(AddressRules(), ManualClock(), Names(["93.184.216.34", "10.0.0.1"]))
    with pytest.raises(AddressRefused):
        await dialer.addresses("mixed.test", 80)


async def test_the_next_address_is_tried():
    async def connect(address):
        if address == "8.8.8.8":
            raise ConnectionRefusedError(111, "refused")
        return address

    dialer = Dialer(AddressRules(), ManualClock(), Names(["8.8.8.8", "8.8.4.4"], ["8.8.8.8"]))
    assert await dialer.dial("two.test", 80, connect) == "8.8.4.4"
    with pytest.raises(ToolError, match=r"two\.test port 80 cannot be reached: connection refused"):
        await dialer.dial("two.test", 80, connect)


async def test_a_silent_name_server_and_a_silent_host():
    clock = ManualClock()

    async def silent(*_):
        await asyncio.Event().wait()

    looking = asyncio.ensure_future(Dialer(AddressRules(), clock, silent).addresses("a.test", 1))
    await settle()
    clock.advance(RESOLVE_S)
    with pytest.raises(ToolError, match=r"name server did not answer about a\.test"):
        await looking
    dialer = Dialer(AddressRules(), clock, Names(["8.8.8.8"]))
    dialing_it = asyncio.ensure_future(dialer.dial("a.test", 1, silent))
    await settle()
    clock.advance(dialing.CONNECT_S)
    with pytest.raises(ToolError, match="no connection within 10 s"):
        await dialing_it


async def test_names_that_do_not_exist():
    async def nowhere(*_):
        raise OSError(-2, "Name or service not known")

    with pytest.raises(ToolError, match=r"There is no host a\.test"):
        await Dialer(AddressRules(), ManualClock(), nowhere).addresses("a.test", 1)
    with pytest.raises(ToolError, match=r"There is no host a\.test"):
        await Dialer(AddressRules(), ManualClock(), Names([])).addresses("a.test", 1)


@pytest.mark.parametrize("odd", ["2130706433", "0x7f000001", "127.1", "0177.0.0.1", "localhost"])
async def test_odd_spellings_of_this_machine_are_found_out(odd):
    with pytest.raises(AddressRefused):
        await Dialer(AddressRules(), ManualClock()).addresses(odd, 80)


async def test_lookups_are_bounded(monkeypatch):
    import threading

    gate = threading.Event()
    monkeypatch.setattr(dialing, "_look_up", lambda host, port: gate.wait(30) and ("8.8.8.8",))
    lookups = Lookups()
    waiting = [asyncio.ensure_future(lookups("a.test", 1)) for _ in range(LOOKUPS_MAX)]
    await settle()
    with pytest.raises(OSError, match="too many lookups"):
        await lookups("a.test", 1)
    waiting[0].cancel()
    await settle()
    with pytest.raises(OSError, match="too many lookups"):  # its thread still runs
        await lookups("a.test", 1)
    gate.set()
    await asyncio.wait(waiting)
    assert waiting[0].cancelled()
    assert await lookups("a.test", 1) == ("8.8.8.8",)
