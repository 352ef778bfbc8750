"""Case 43: what was done under a browser that crashed is not done again; its outcome is unknown."""

import asyncio

import pytest

from support.browsing import Rig
from tenure.errors import BrowserGone
from tenure.testing.browser import FakePage
from tenure.testing.gates import Gate


async def test_a_click_with_unknown_outcome_is_not_repeated(root, tmp_path):
    rig = Rig(root, tmp_path)
    gate = Gate()
    rig.site["http://a.test/"] = FakePage("A", links={"Pay": "/paid"})
    rig.site["http://a.test/paid"] = FakePage("Paid", gate=gate)
    await rig.act()
    task = asyncio.ensure_future(rig.act("click", ref="e1"))
    await gate.wait_parked()
    rig.started[0].kill()
    with pytest.raises(BrowserGone, match="the outcome is unknown"):
        await task
    gate.release()
    clicks = [entry for browser in rig.started for entry in browser.log if "click" in entry]
    assert len(clicks) == 1
