"""The gateway's end of the browser, without one."""

from tenure.browser.client import HostedBrowser


class Process:
    """A host that can only be killed."""

    killed = False

    def kill(self):
        self.killed = True


async def test_a_browser_that_has_ended_stands_in_the_census_without_its_pid(root):
    process = Process()
    browser = HostedBrowser(root, process)
    browser.row = root.own("chromium", browser, lambda _: None, pid=4711)
    browser.kill()
    assert process.killed and await browser.wait_gone() == "it stopped answering"
    assert [entry.pid for entry in root.census()] == [None]
