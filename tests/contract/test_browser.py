"""What every browser does: the one of the testing kit, and Chromium."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import tempfile
from pathlib import Path

import pytest

from support.chromium import parked
from support.needs import chromium, need
from tenure.browser.client import start_browser
from tenure.browser.protocol import Action, Rules
from tenure.clock import SystemClock
from tenure.errors import BrowserGone, ToolError
from tenure.lifecycle.scope import Scope
from tenure.processes.spawn import Spawner
from tenure.settings import BrowserConfig
from tenure.testing.browser import FakeBrowser, FakePage
from tenure.testing.gates import Gate
from tenure.testing.model_server import Answer, ModelServer

START = (
    "<title>Start</title><h1>Start</h1><a href='/next'>Next</a> <a href='{away}'>Away</a>"
    "<a href='/file' download>File</a><input aria-label=Name>"
    "<select aria-label=Colour><option>red<option>blue</select>"
)
COUNT = (
    "<title>Count</title><script>if (document.cookie) document.title += ' again';"
    "document.cookie = 'seen=1'</script>"
)


class World:
    """A browser and the site that it may reach."""

    def __init__(self, port, gate, folder):
        self.port = port
        self.gate = gate
        self.folder = folder
        self.browser = None

    def url(self, path="/", host="127.0.0.1"):
        return f"http://{host}:{self.port}{path}"

    async def open(self, context="c"):
        allow = (f"127.0.0.1:{self.port}", f"localhost:{self.port}")
        await self.browser.open(context, Rules(allow=allow))

    async def act(self, verb, context="c", **more):
        return await self.browser.act(context, Action(verb, **more))

    async def ref(self, name, context="c"):
        """The element of that name in the latest snapshot."""
        text = (await self.act("snapshot", context)).text
        line = next(line for line in text.splitlines() if f'"{name}"' in line)
        return line.partition("[ref=")[2].partition("]")[0]


def fake_site(port, gate):
    def url(path, host="127.0.0.1"):
        return f"http://{host}:{port}{path}"

    start = FakePage(
        "Start",
        links={"Next": "/next", "Away": url("/next", "localhost"), "File": b"content"},
        fields=("Name",),
        choices={"Colour": ("red", "blue")},
    )
    return {
        url("/"): start,
        url("/next"): FakePage("Next", fields=("More",)),
        url("/next", "localhost"): FakePage("Next", fields=("More",)),
        url("/count"): FakePage("Count", counts=True),
        url("/hang"): FakePage("Hang", gate=gate),
    }


@pytest.fixture(params=["fake", pytest.param("chromium", marks=pytest.mark.slow)])
async def world(request, tmp_path):
    gate = Gate()
    if request.param == "fake":
        world = World(8000, gate, tmp_path)
        world.browser = FakeBrowser(fake_site(8000, gate), tmp_path)
        yield world
        return
    need("chromium")
    scope = Scope.root("browser", SystemClock())
    spawner = Spawner(instance="test", environ=dict(os.environ), clock=scope.clock)
    async with ModelServer() as server:
        page = {"content_type": "text/html"}
        away = f"http://localhost:{server.port}/next"
        server.by_path = {
            "/": Answer(START.format(away=away).encode(), **page),
            "/next": Answer(b"<title>Next</title><input aria-label=More>", **page),
            "/count": Answer(COUNT.encode(), **page),
            "/hang": Answer(gate, b"late", **page),
            "/file": Answer(b"content", content_type="application/octet-stream",
                            headers={"content-disposition": "attachment; filename=File"}),
        }  # fmt: skip
        folder = Path(tempfile.mkdtemp(prefix="tenure-", dir="/tmp"))
        world = World(server.port, gate, folder)
        try:
            world.browser = await start_browser(scope, spawner, chromium(), BrowserConfig(), folder)
            yield world
        finally:
            await scope.close()
            shutil.rmtree(folder, ignore_errors=True)
        assert not folder.exists()


async def test_a_page_is_shown_and_used(world):
    await world.open()
    shown = await world.act("navigate", url=world.url())
    assert shown.url == world.url()
    assert "\nStart\n" in shown.text
    assert 'link "Next" [ref=' in shown.text
    typed = await world.act("type", ref=await world.ref("Name"), text="Ada")
    assert typed.text.partition('"Name"')[2].splitlines()[0].endswith("Ada")
    chosen = await world.act("select", ref=await world.ref("Colour"), text="blue")
    assert "blue" in chosen.text
    followed = await world.act("click", ref=await world.ref("Next"))
    assert (followed.url, "\nNext\n" in followed.text) == (world.url("/next"), True)
    assert (await world.act("back")).url == world.url()
    assert world.url() in (await world.act("tabs")).text
    for looking in ("scroll", "console", "network", "snapshot"):
        assert (await world.act(looking)).text


async def test_what_is_saved_is_a_file(world):
    await world.open()
    await world.act("navigate", url=world.url())
    for verb in ("screenshot", "pdf"):
        outcome = await world.act(verb)
        assert Path(outcome.file).is_relative_to(world.folder)
        assert Path(outcome.file).stat().st_size > 0
    outcome = await world.act("download", ref=await world.ref("File"))
    assert (Path(outcome.file).read_bytes(), outcome.name) == (b"content", "File")


async def test_what_cannot_be_done_is_a_sentence(world):
    await world.open()
    with pytest.raises(ToolError, match="No page is open; navigate first"):
        await world.act("snapshot")
    with pytest.raises(ToolError, match="neither http nor https"):
        await world.act("navigate", url="file:///etc/passwd")
    with pytest.raises(ToolError, match=r"\[web\] allow"):
        await world.act("navigate", url="http://169.254.169.254/")
    await world.act("navigate", url=world.url())
    with pytest.raises(ToolError, match="There is no e99 in the latest snapshot"):
        await world.act("click", ref="e99")
    with pytest.raises(ToolError):
        await world.act("click")


async def test_acting_needs_a_host_that_was_opened_by_its_url(world):
    await world.open()
    await world.act("navigate", url=world.url())
    assert (await world.act("click", ref=await world.ref("Away"))).url.startswith(
        "http://localhost"
    )
    with pytest.raises(ToolError, match="on localhost now, which was not opened by its URL"):
        await world.act("type", ref=await world.ref("More"), text="x")
    await world.act("navigate", url=world.url("/next", "localhost"))
    await world.act("type", ref=await world.ref("More"), text="x")


async def test_contexts_know_nothing_of_each_other(world):
    for name in ("a", "b"):
        await world.open(name)
        first = await world.act("navigate", name, url=world.url("/count"))
        second = await world.act("navigate", name, url=world.url("/count"))
        assert "\nCount\n" in first.text
        assert "\nCount again\n" in second.text


async def test_a_closed_context_is_not_known(world):
    await world.open()
    await world.act("navigate", url=world.url())
    await world.browser.close("c")
    with pytest.raises(ToolError, match="does not know these pages any more"):
        await world.act("snapshot")
    await world.browser.close("c")
    await world.browser.close("never")
    await world.open()
    with pytest.raises(ToolError, match="No page is open"):
        await world.act("snapshot")


async def test_what_is_given_up_ends(world):
    await world.open()
    task = asyncio.ensure_future(world.act("navigate", url=world.url("/hang")))
    await parked(world.gate)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    world.gate.release()
    assert (await world.act("navigate", url=world.url())).url == world.url()


async def test_long_texts_and_calls_that_are_given_up_do_not_mix(world):
    await world.open()
    await world.act("navigate", url=world.url())
    ref = await world.ref("Name")
    for _ in range(5):
        task = asyncio.ensure_future(world.act("type", ref=ref, text="x" * 190_000))
        await asyncio.sleep(0)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):  # the fake is faster
            await task
    assert "Start" in (await world.act("snapshot")).text
    assert world.browser.gone == ""


async def test_the_end_of_the_browser_is_told_to_all(world):
    await world.open()
    assert world.browser.gone == ""
    hanging = asyncio.ensure_future(world.act("navigate", url=world.url("/hang")))
    await parked(world.gate)
    world.browser.kill()
    with pytest.raises(BrowserGone, match="the outcome is unknown"):
        await hanging
    assert await world.browser.wait_gone() == world.browser.gone != ""
    with pytest.raises(BrowserGone):
        await world.act("snapshot")
    with pytest.raises(BrowserGone):
        await world.open("other")
    await world.browser.close("c")
    world.gate.release()
