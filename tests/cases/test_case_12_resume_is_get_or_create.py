"""Case 12: however many resume one stored session at once, one runtime is built."""

from __future__ import annotations

from tenure.models.script import Script
from tenure.testing.clock import settle
from tenure.testing.gates import Gate
from tenure.testing.gateway import open_test_gateway


async def test_ten_resumes_one_build(tmp_path):
    async with open_test_gateway(tmp_path, Script([])) as gw:
        client, _ = await gw.client()
        sid = await client.ready_session()
        await client.call("session.close", session_id=sid)
        built = gw.picker.picks
        build = gw.picker.gates["http client"] = Gate()
        clients = [(await gw.client())[0] for _ in range(10)]
        resumes = [
            gw.root.spawn(
                c.call("session.resume", session_id=sid, eager_build=n % 2 == 0), name="resume"
            ).value
            for n, c in enumerate(clients)
        ]
        await build.wait_parked()
        await settle()
        del gw.picker.gates["http client"]
        build.release()
        answers = [await resume for resume in resumes]
        assert {(a["session_id"], a["epoch"]) for a in answers} == {(sid, 2)}
        assert gw.picker.picks == built + 1
        assert gw.picker.opened == list(gw.picker.STEPS)
        assert len({a["attachment"] for a in answers}) == 10
        session = gw.sessions.get(sid)
        assert len(session.attachments) == 10


async def test_resumes_while_it_closes_open_it_anew_once(tmp_path):
    async with open_test_gateway(tmp_path, Script([])) as gw:
        client, _ = await gw.client()
        sid = await client.ready_session()
        clients = [(await gw.client())[0] for _ in range(5)]
        gw.sessions.close_nowait(gw.sessions.get(sid), "a test", "client")
        resumes = [
            gw.root.spawn(c.call("session.resume", session_id=sid), name="resume").value
            for c in clients
        ]
        assert {(await r)["epoch"] for r in resumes} == {2}
        assert gw.picker.picks == 2
