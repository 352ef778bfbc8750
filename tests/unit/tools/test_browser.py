"""The browser's tools, over the browser of the testing kit."""

import os

import pytest

from tenure.browser.lending import Browsers
from tenure.config import Config
from tenure.errors import ToolError
from tenure.settings import BrowserConfig, WebConfig
from tenure.testing.browser import FakeBrowser, FakePage, found_for_tests
from tenure.testing.desk import Desk
from tenure.tools.browser import BrowserSave, BrowserTool, copy_new, safe_name
from tenure.tools.registry import tools_for
from tenure.tools.web.reach import Reach


class Place:
    """A desk with a browser."""

    def __init__(self, desk, folder):
        self.desk = desk
        self.folder = folder
        self.browser = None
        self.site = {
            "http://a.test/": FakePage(
                "A", links={"Next": "/next", "File": b"content"}, fields=("Name",)
            ),
            "http://a.test/next": FakePage("Next"),
        }
        self.browsers = Browsers(desk.root.child("browsers"), self._start, found_for_tests)
        self.config = Config(web=WebConfig(allow=("10.0.0.1",)))

    async def _start(self, scope, config):
        self.browser = FakeBrowser(self.site, self.folder)
        return self.browser

    async def browse(self, action, **more):
        tool = BrowserTool(self.config, self.browsers)
        return await self.desk.call(tool, action=action, **more)

    async def save(self, what, **more):
        return await self.desk.call(BrowserSave(self.config, self.browsers), what=what, **more)


@pytest.fixture
async def place(tmp_path):
    desk = Desk(tmp_path, dict(os.environ))
    folder = tmp_path / "browser"
    folder.mkdir()
    yield Place(desk, folder)
    await desk.session.close()  # as in a gateway: whoever borrows ends before what is lent
    await desk.root.close()


async def test_looking_and_acting(place):
    shown = await place.browse("navigate", url="a.test".join(("http://", "/")))
    assert "\nA\n" in shown.text
    assert shown.summary == "navigate: http://a.test/"
    assert "Next" in (await place.browse("click", ref="e1")).text
    await place.browse("back")
    assert ": Ada" in (await place.browse("type", ref="e3", text="Ada")).text
    await place.desk.end_turn()
    assert "A" in (await place.browse("snapshot")).text  # the pages outlive the turn


@pytest.mark.parametrize("arguments", [("click", {"url": "http://a.test/"}), ("navigate", {})])
async def test_only_navigate_takes_a_url(place, arguments):
    """What has a URL is judged by its host, so nothing else may have one."""
    action, more = arguments
    with pytest.raises(ToolError, match="navigate takes a url, and nothing else does"):
        await place.browse(action, **more)


async def test_what_is_saved_stands_in_the_working_directory(place):
    await place.browse("navigate", url="http://a.test/")
    told = (await place.save("download", ref="e2")).text
    assert told == "A file: saved as File (7 bytes)."
    assert (place.desk.cwd / "File").read_bytes() == b"content"
    assert "File-2" in (await place.save("download", ref="e2")).text
    await place.save("screenshot", path="shots/one.png")
    assert (place.desk.cwd / "shots" / "one.png").exists()
    assert list(place.folder.iterdir()) == []  # nothing stays with the browser


async def test_nothing_is_overwritten_and_nothing_leads_out(place, tmp_path):
    await place.browse("navigate", url="http://a.test/")
    (place.desk.cwd / "mine").write_text("mine")
    (place.desk.cwd / "out").symlink_to(tmp_path)
    for path in ("mine", "../x", "/etc/x", "out/x", "a\0b", "aux", "x" * 9_999):
        with pytest.raises(ToolError):
            await place.save("pdf", path=path)
    assert (place.desk.cwd / "mine").read_text() == "mine"
    assert sorted(os.listdir(place.desk.cwd)) == ["mine", "out"]
    assert not (tmp_path / "x").exists()
    assert list(place.folder.iterdir()) == []


async def test_what_is_typed_is_bounded(place):
    await place.browse("navigate", url="http://a.test/")
    with pytest.raises(ToolError, match="more than 200000 characters"):
        await place.browse("type", ref="e3", text="x" * 200_001)


NAMES = [
    ("report.pdf", "report.pdf"),
    ("../../etc/passwd", "passwd"),
    ("C:\\x\\y.txt", "y.txt"),
    ("/abs", "abs"),
    ("a\0b\nc.txt", "a_b_c.txt"),
    (".bashrc", "bashrc"),
    ("...", "download"),
    ("", "download"),
    ("con", "_con"),
    ("Grüße 1.txt", "Grüße 1.txt"),
    ("<script>.html", "_script_.html"),
    ("x" * 300 + ".tar", "x" * 96 + ".tar"),
    ("a.b/..", "download"),
]


@pytest.mark.parametrize(("name", "plain"), NAMES)
def test_names_that_pages_give_are_made_plain(name, plain):
    assert safe_name(name) == plain


def test_a_disk_that_fails_leaves_no_half_file(tmp_path):
    (tmp_path / "work").mkdir()
    with pytest.raises(ToolError):
        copy_new(tmp_path / "missing", tmp_path / "work", "x", False)
    assert list((tmp_path / "work").iterdir()) == []


def names(config, reach):
    return [tool.name for tool in tools_for(config, False, reach)]


async def test_it_is_offered_only_where_there_is_one(place):
    reach = Reach({}, browsers=place.browsers)
    assert names(Config(), reach)[-2:] == ["browser", "browser_save"]
    assert "browser" not in names(Config(browser=BrowserConfig(enabled=False)), reach)
    assert "browser" not in names(Config(web=WebConfig(enabled=False)), reach)
    assert "browser" not in names(Config(), Reach({}))
    assert "browser" not in [tool.name for tool in tools_for(Config(), True, reach)]
