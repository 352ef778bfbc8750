"""Sessions and the browser that they share."""

import asyncio

import pytest

from support.browsing import Rig
from tenure.browser.lending import IDLE_S
from tenure.browser.visit import pages_open
from tenure.errors import BrowserGone, ScopeClosed, ToolError
from tenure.testing.browser import FakePage
from tenure.testing.clock import settle
from tenure.testing.gates import Gate


@pytest.fixture
def rig(root, tmp_path):
    return Rig(root, tmp_path)


async def test_all_sessions_share_one_browser_and_nothing_in_it(rig):
    for name in ("a", "b", "c"):
        assert "\nA\n" in await rig.act(name=name)
    assert len(rig.started) == 1
    assert len(rig.started[0].contexts) == 3
    assert sorted(rig.held("root/b")) == [
        "borrowed browser chromium",
        "browser context b",
        "browser visit",
        "task end of the visit",
    ]
    await rig.close("a")
    assert len(rig.started[0].contexts) == 2
    assert "A" in await rig.act("snapshot", name="b")


async def test_the_browser_ends_a_while_after_its_last_session(rig, clock):
    await rig.act(name="a")
    await rig.act(name="b")
    await rig.close("a")
    clock.advance(IDLE_S)
    await settle()
    assert rig.running == 1
    await rig.close("b")
    clock.advance(IDLE_S - 1)
    await settle()
    assert rig.running == 1
    clock.advance(1)
    await settle()
    assert (rig.running, rig.held("browsers")) == (0, [])
    await rig.act(name="c")
    assert len(rig.started) == 2


async def test_unused_pages_are_closed_and_that_is_told_once(rig, clock):
    await rig.act()
    clock.advance(rig.config.idle_s - 1)
    await settle()
    await rig.act("snapshot")
    clock.advance(rig.config.idle_s - 1)
    await settle()
    assert pages_open(rig.session()[1])
    clock.advance(1)
    await settle()
    assert not pages_open(rig.session()[1])
    assert rig.started[0].contexts == []
    assert rig.held("root/s") == []
    with pytest.raises(ToolError, match=r"closed: nobody used them for 600 s\. Navigate again"):
        await rig.act("snapshot")
    with pytest.raises(ToolError, match=r"No page is open"):
        await rig.act("snapshot")
    assert "[The pages" not in await rig.act()


async def test_a_long_action_is_use(rig, clock):
    gate = Gate()
    rig.site["http://a.test/slow"] = FakePage("Slow", gate=gate)
    task = asyncio.ensure_future(rig.act(url="http://a.test/slow"))
    await gate.wait_parked()
    clock.advance(rig.config.idle_s * 2)
    await settle()
    gate.release()
    assert "Slow" in await task


async def test_after_a_crash_each_session_is_told_once_and_gets_a_new_context(rig):
    for name in ("a", "b", "c"):
        await rig.act(name=name)
    rig.started[0].kill()
    await settle()
    assert rig.running == 0
    assert rig.held("root/a") == []
    with pytest.raises(ToolError, match=r"The browser has ended \(it crashed.*Navigate again"):
        await rig.act("snapshot", name="a")
    assert "\nA\n" in await rig.act(name="a")
    told = await rig.act(name="b")
    assert told.startswith("[The browser has ended (it crashed")
    assert "[The browser" not in await rig.act(name="b")
    await rig.close("c")  # it is never told, and holds nothing
    assert (len(rig.started), len(rig.started[1].contexts)) == (2, 2)


async def test_a_call_under_which_it_crashes_is_told_there_and_not_again(rig):
    gate = Gate()
    rig.site["http://a.test/slow"] = FakePage("Slow", gate=gate)
    await rig.act()
    task = asyncio.ensure_future(rig.act(url="http://a.test/slow"))
    await gate.wait_parked()
    rig.started[0].kill()
    with pytest.raises(BrowserGone, match="the outcome is unknown"):
        await task
    await settle()
    assert "[The browser" not in await rig.act()
    assert [entry.split()[1] for entry in rig.started[0].log] == ["navigate", "navigate"]
    assert len(rig.started[1].log) == 1
    gate.release()


async def test_a_call_in_the_moment_of_the_crash_gets_a_new_context(rig):
    await rig.act()
    rig.started[0].kill()
    assert (await rig.act()).startswith("[The browser has ended")
    assert len(rig.started) == 2


async def test_a_newcomer_in_the_moment_of_the_crash_waits_for_the_new_browser(rig):
    for name in ("a", "b"):
        await rig.act(name=name)
    rig.started[0].kill()
    assert "\nA\n" in await rig.act(name="c")
    assert [len(browser.contexts) for browser in rig.started] == [0, 1]


async def test_old_and_new_never_coexist(rig):
    gate = Gate()
    await rig.act(name="a")
    await rig.act(name="b")
    rig.started[0].gates["close"] = gate
    rig.started[0].kill()
    await settle()
    task = asyncio.ensure_future(rig.act(name="c"))
    await settle()
    assert len(rig.started) == 1  # the old one is being given back
    gate.release()
    assert "\nA\n" in await task
    assert rig.running == 1


async def test_closing_during_a_navigation_frees_the_context(rig):
    gate = Gate()
    rig.site["http://a.test/slow"] = FakePage("Slow", gate=gate)
    await rig.act(name="other")
    scope, _ = rig.session()
    turn = scope.child("turn")
    lease = turn.spawn(rig.act(url="http://a.test/slow"), name="tool")
    await gate.wait_parked()
    task = lease.value
    await rig.close()
    assert task.cancelled()
    assert (len(rig.started[0].contexts), rig.held("root/s")) == (1, [])
    gate.release()


@pytest.mark.parametrize("step", ["start", "open"])
async def test_closing_while_it_begins_leaves_nothing(rig, step, root):
    gate = Gate()
    await rig.act(name="other") if step == "open" else None
    if step == "start":
        rig.gate = gate
    else:
        rig.started[0].gates["open"] = gate
    task = asyncio.ensure_future(rig.act())
    await gate.wait_parked()
    closing = asyncio.ensure_future(rig.close())
    await settle()
    gate.release()
    await closing
    with pytest.raises((ScopeClosed, asyncio.CancelledError)):
        await task
    await settle()
    assert rig.held("root/s") == []
    assert len(rig.started[0].contexts) == (1 if step == "open" else 0)


async def test_cancelling_while_it_begins_leaves_nothing_in_the_session(rig):
    gate = rig.gate = Gate()
    task = asyncio.ensure_future(rig.act())
    await gate.wait_parked()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert rig.held("root/s") == []
    gate.release()
    assert "\nA\n" in await rig.act()


async def test_one_that_does_not_start_is_told_and_tried_again(rig):
    rig.failure = ToolError("Chromium does not start.")
    for _ in range(2):
        with pytest.raises(ToolError, match="does not start"):
            await rig.act()
    assert (rig.running, rig.held("root/s"), rig.held("browsers")) == (0, [], [])
    rig.failure = None
    assert "\nA\n" in await rig.act()


async def test_sessions_with_pages_are_bounded(root, tmp_path):
    rig = Rig(root, tmp_path, sessions_max=2)
    await rig.act(name="a")
    await rig.act(name="b")
    with pytest.raises(ToolError, match="2 sessions have pages open already"):
        await rig.act(name="c")
    await rig.close("a")
    assert "\nA\n" in await rig.act(name="c")


async def test_two_calls_at_once_open_one_context(rig):
    texts = [asyncio.ensure_future(rig.act()) for _ in range(3)]
    await asyncio.wait(texts)
    assert len(rig.started[0].contexts) == 1


async def test_a_browser_that_is_switched_off(root, tmp_path):
    rig = Rig(root, tmp_path, enabled=False)
    with pytest.raises(ToolError, match="It is off"):
        await rig.act()
    assert rig.held("root/s") == []


async def test_the_end_of_the_gateway_ends_it(rig, root):
    await rig.act(name="a")
    await root.close()
    assert rig.running == 0
