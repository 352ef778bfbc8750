"""What pages can reach: whatever a script thinks of goes through the session's proxy."""

import pytest

from tenure.errors import ToolError
from tenure.testing.model_server import Answer, ModelServer

pytestmark = pytest.mark.slow

TRY = """
<title>wait</title><script>
const inner = 'http://127.0.0.1:%d';
const tries = {
  fetch: () => fetch(inner + '/secret', {mode: 'no-cors'}),
  named: () => fetch('http://localhost:%d/secret', {mode: 'no-cors'}),
  meta: () => fetch('http://169.254.169.254/', {mode: 'no-cors'}).then(r => {
    if (r.type !== 'opaque') throw 0; return r.text().then(t => { if (!t) throw 0 }) }),
  image: () => new Promise((ok, no) => {
    const i = new Image(); i.onload = ok; i.onerror = no; i.src = inner + '/secret.png' }),
  socket: () => new Promise((ok, no) => {
    const s = new WebSocket('ws://127.0.0.1:%d/secret'); s.onopen = ok; s.onerror = no }),
  worker: () => navigator.serviceWorker.register('/worker.js').then(r => r.active || r.installing ||
    Promise.reject()),
  file: () => fetch('file:///etc/passwd'),
  opened: () => { const w = window.open('file:///etc/passwd'); if (w && w.document.body.innerText)
    return 1; throw 0 },
};
(async () => {
  let reached = [];
  for (const [name, attempt] of Object.entries(tries)) {
    try { await attempt(); reached.push(name) } catch (e) {}
  }
  document.title = 'done ' + reached.join(',');
})();
</script>
"""


async def test_nothing_inside_is_reached_by_any_means(world):
    async with ModelServer() as inner:
        inner.fallback = Answer(b"secret", content_type="text/plain")
        port = inner.port
        world.page("/", TRY % (port, port, port))
        world.server.by_path["/worker.js"] = Answer(b"1", content_type="text/javascript")
        await world.open()
        title = await world.title("done")
        # an opaque answer of the proxy's own refusal counts as fetched; nothing arrived inside
        assert not {"image", "socket", "worker", "file", "opened", "meta"} & set(
            title.removeprefix("done ").split(",")
        ), title
        assert inner.requests == []
        assert inner.accepted == 0


@pytest.mark.parametrize(
    "there", ["http://169.254.169.254/latest/meta-data", "http://localhost:8009/", "http://[::1]/"]
)
async def test_a_redirect_to_where_nothing_is_reached(world, there):
    world.server.by_path["/r"] = Answer(status=302, headers={"location": there})
    with pytest.raises(ToolError, match=r"\[web\] allow"):
        await world.open("/r")


async def test_a_page_cannot_lead_to_files(world):
    world.page("/frame", "<title>T</title><iframe src='file:///etc/passwd'></iframe>")
    assert "root:" not in await world.open("/frame")
    world.page(
        "/",
        "<title>T</title><a href='file:///etc/passwd'>File</a>",
    )
    await world.open()
    shown = (await world.act("click", ref=await world.ref('link "File"'))).text
    assert "root:" not in shown
    assert "root:" not in (await world.act("snapshot")).text


async def test_a_link_inside_is_refused_when_it_is_followed(world):
    async with ModelServer() as inner:
        world.page("/", f"<a href='http://127.0.0.1:{inner.port}/'>Inside</a>")
        await world.open()
        with pytest.raises(ToolError, match="is reached only if"):
            await world.act("click", ref=await world.ref('link "Inside"'))
        assert inner.accepted == 0


async def test_a_download_without_end_is_cut(world):
    world.page("/", "<a href='/big' download>Big</a>")
    world.server.by_path["/big"] = Answer(
        *[b"x" * 65_536] * 80, content_type="application/octet-stream"
    )
    limits = {"file_bytes_max": 2 * 1024 * 1024}
    await world.open(rules=limits)
    with pytest.raises(ToolError, match=r"larger than 2 MB|download failed"):
        await world.act("download", rules=limits, ref=await world.ref("Big"))


async def test_a_file_that_a_page_makes_itself_has_the_same_limit(world):
    world.page(
        "/",
        "<script>function make() { const a = document.createElement('a'); a.download = 'made';"
        "a.href = URL.createObjectURL(new Blob([new Uint8Array(3e6)])); a.click() }</script>"
        "<button onclick='make()'>Make</button>",
    )
    limits = {"file_bytes_max": 2 * 1024 * 1024}
    await world.open(rules=limits)
    with pytest.raises(ToolError, match="larger than 2 MB"):
        await world.act("download", rules=limits, ref=await world.ref("Make"))


async def test_what_pages_do_by_themselves_is_told(world):
    world.page(
        "/",
        "<title>T</title><script>console.log('hello log'); alert('hello alert');"
        "let x = new XMLHttpRequest(); x.open('GET', '/missing', false); x.send()</script>"
        "<a href='/f' download>F</a><a href='/two' target=_blank>Two</a>",
    )
    world.page("/two", "<title>Two</title>")
    assert "the page showed alert 'hello alert': dismissed" in await world.open()
    assert "hello log" in (await world.act("console")).text
    assert "/missing" in (await world.act("network")).text
    shown = (await world.act("click", ref=await world.ref('"Two"'))).text
    assert "a new page has opened" in shown and "page 2 of 2" in shown
    assert "\nT\n" in (await world.act("tabs", text="1")).text
    offered = (await world.act("click", ref=await world.ref('"F"'))).text
    offered += (await world.act("scroll")).text
    assert "the page offered the file" in offered
    with pytest.raises(ToolError, match="There is no page '9'"):
        await world.act("tabs", text="9")


async def test_pages_of_a_session_are_bounded(world):
    world.page("/", "<title>T</title><a href='/' target=_blank>More</a>")
    await world.open(rules={"pages_max": 2})
    shown = ""
    for _ in range(3):
        shown += (await world.act("click", ref=await world.ref('"More"'))).text
        shown += (await world.act("scroll")).text
    assert "more than 2 pages; the new one was closed" in shown
    assert len((await world.act("tabs")).text.splitlines()) <= 3
