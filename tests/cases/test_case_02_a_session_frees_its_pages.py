"""Case 2: the end of a session frees its part of the browser, which nobody has to list."""

import pytest

from support.browsing import Rig
from tenure.testing.browser import FakePage
from tenure.testing.clock import settle
from tenure.testing.gates import Gate


@pytest.mark.parametrize("busy", [False, True])
async def test_the_context_and_the_borrowing_end_with_the_session(root, tmp_path, busy):
    rig = Rig(root, tmp_path)
    gate = Gate()
    rig.site["http://a.test/slow"] = FakePage("Slow", gate=gate)
    await rig.act(name="other")
    baseline = rig.held()
    for _ in range(20):
        await rig.act()
        if busy:
            scope, _ = rig.session()
            scope.spawn(rig.act(url="http://a.test/slow"), name="tool")
            await settle()
        await rig.close()
        assert len(rig.started[0].contexts) == 1
    assert rig.held() == baseline
    gate.release()
