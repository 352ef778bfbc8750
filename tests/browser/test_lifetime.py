"""The browser's life and death: crashes, closes, memory; and nothing that stays."""

import asyncio
from pathlib import Path

import pytest

from support.chromium import end, main_process, main_processes, parked, processes
from tenure.errors import BrowserGone, ToolError
from tenure.testing.gates import Gate
from tenure.testing.model_server import Answer

pytestmark = pytest.mark.slow


async def test_sessions_share_the_process_and_no_cookies(world):
    world.page("/set", "<title>set</title><script>document.cookie = 'a=1'</script>")
    world.page(
        "/get", "<title>x</title><script>document.title = 'cookie:' + document.cookie</script>"
    )
    await world.open("/set", "a")
    await asyncio.gather(*(world.open("/get", name) for name in ("a", "b", "c")))
    assert "cookie:a=1" in (await world.act("snapshot", "a")).text
    assert "cookie:\n" in (await world.act("snapshot", "b")).text
    assert len(processes("tenure.browser.host")) == 1


TALL = """\
<title>…</title>
<script>
let said = ""
addEventListener("message", event => { said = event.data })
setInterval(() => {
  const window_ = outerHeight < 100 ? "flat" : "high", place = scrollY > 1000 ? "end" : "top"
  document.title = `${innerWidth}x${innerHeight} ${window_} ${place} ${said}`
}, 20)
</script>
<div style="height: 400px"></div>
<iframe src="FRAME" style="width: 600px; height: 250px; border: 0"></iframe>
<div style="height: 2000px"></div>
"""
BUTTON = """\
<button style="margin-top: 180px; width: 300px" onclick="
  this.style.background = 'red'; parent.postMessage('pressed', '*')">Press</button>
"""


async def test_a_page_has_its_full_size_in_a_flat_window(world):
    there = world.url("/frame", "localhost")  # of another site: in a process of its own
    allow = {"allow": (f"127.0.0.1:{world.server.port}", f"localhost:{world.server.port}")}
    world.page("/", TALL.replace("FRAME", there))
    world.page("/frame", BUTTON)
    await world.open(rules=allow)
    await world.title("1280x720 flat top")
    before = Path((await world.act("screenshot")).file).read_bytes()
    assert before[16:24] == (1280).to_bytes(4, "big") + (720).to_bytes(4, "big")
    await world.act("click", ref=await world.ref("Press"))
    await world.title("1280x720 flat top pressed")
    assert Path((await world.act("screenshot")).file).read_bytes() != before
    await world.act("scroll", text="bottom")
    await world.title("1280x720 flat end pressed")


@pytest.mark.parametrize("victim", ["chromium", "host"])
async def test_after_a_crash_each_session_is_told_once_and_goes_on(world, victim):
    world.page("/", "<title>Here</title>")
    for name in ("a", "b"):
        await world.open("/", name)
    before = set(processes())
    end(main_process() if victim == "chromium" else processes("tenure.browser.host")[0])
    await world.until(lambda: not before & set(processes()))
    with pytest.raises(ToolError, match="The browser has ended"):
        await world.act("snapshot", "a")
    assert "\nHere\n" in await world.open("/", "a")
    told = await world.open("/", "b")
    assert told.startswith("[The browser has ended") and "\nHere\n" in told
    assert "[The browser" not in await world.open("/", "b")
    assert len(list(world.folder.glob("tenure-browser-*"))) == 1


async def test_a_crash_under_a_call(world):
    gate = Gate()
    world.server.by_path["/hang"] = Answer(gate)
    task = asyncio.ensure_future(world.open("/hang"))
    await parked(gate)
    end(main_process())
    with pytest.raises(BrowserGone, match="the outcome is unknown"):
        await task
    gate.release()
    assert len([r for r in world.server.requests if r.path == "/hang"]) == 1


async def test_closing_a_session_in_the_middle_of_a_navigation(world):
    gate = Gate()
    world.page("/", "<title>Here</title>")
    world.server.by_path["/hang"] = Answer(gate)
    await world.open("/", "other")
    task = asyncio.ensure_future(world.open("/hang"))
    await parked(gate)
    renderers = len(processes("--type=renderer"))
    await world.close()
    with pytest.raises((ToolError, asyncio.CancelledError)):
        await task
    await world.server.requests[-1].gone.wait()
    await world.until(lambda: len(processes("--type=renderer")) < max(renderers, 2))
    assert "\nHere\n" in (await world.act("snapshot", "other")).text
    gate.release()


async def said(call):
    """The text of an outcome or of an error."""
    try:
        outcome = await call
    except ToolError as exc:
        return exc.message
    return getattr(outcome, "text", outcome)


EATS = {
    "script": "const all = []; setInterval(() => { for (let i = 0; i < 9; i++)"
    " all.push(new Array(1e6).fill(Math.random())) }, 1)",
    "buffers": "const all = []; setInterval(() => { all.push(new Uint8Array(32e6).fill(7)) }, 1)",
}


@pytest.mark.parametrize(
    ("how", "alone"), [("script", False), ("buffers", False), ("buffers", True)]
)
async def test_a_page_that_eats_memory_is_ended_and_the_others_are_not(world, how, alone):
    world.config = type(world.config)(page_mib=256, total_mib=4096)
    world.page("/eats", f"<title>Eats</title><script>{EATS[how]}</script>")
    world.page("/", "<title>Here</title>")
    await world.open("/", "other")
    if alone:  # without the script that Debian puts before it
        for script in set(main_processes()) - {main_process()}:
            end(script)
    told = await said(world.open("/eats"))  # perhaps it is ended before it can be looked at
    async with asyncio.timeout(60):
        while "crashed" not in told:
            told += await said(world.act("snapshot"))
            await asyncio.sleep(0.1)
    assert "the page has crashed, perhaps for want of memory; it was closed" in told
    assert "\nHere\n" in (await world.act("snapshot", "other")).text
    assert "\nHere\n" in await world.open("/")


async def test_nothing_stays_after_the_last_session(world):
    world.page("/", "<title>Here</title>")
    await world.open()
    assert processes()
    await world.aclose()
    assert processes() == []
    assert list(world.folder.iterdir()) == []
