"""terminal.read: a terminal's output, from a cursor of one's own."""

from __future__ import annotations

from tenure.tools import terminals


async def over(rig, session, command):
    opened = await rig.call("terminal.open", session_id=session, command=command)
    await rig.client.until("terminal.close", session)
    return {"session_id": session, "terminal_id": opened["terminal_id"]}


async def test_each_reader_has_a_cursor(rig):
    session = await rig.session()
    one = await over(rig, session, "printf abcdef; (exit 3)")
    first = await rig.call("terminal.read", **one, bytes_max=4)
    assert (first["text"], first["cursor"], first["more"], first["dropped"]) == ("abcd", 4, True, 0)
    rest = await rig.call("terminal.read", **one, cursor=first["cursor"])
    assert (rest["text"], rest["cursor"], rest["more"]) == ("ef", 6, False)
    assert (rest["running"], rest["returncode"]) == (False, 3)
    assert (await rig.call("terminal.read", **one, cursor=10_000))["text"] == ""


async def test_no_character_is_cut(rig):
    session = await rig.session()
    one = await over(rig, session, "printf 'aaé€😀z'")
    text, cursor = "", 0
    while True:
        page = await rig.call("terminal.read", **one, cursor=cursor, bytes_max=4)
        text, cursor = text + page["text"], page["cursor"]
        if not page["more"]:
            break
    assert text == "aaé€😀z"


async def test_what_is_not_kept_is_told(rig, monkeypatch):
    monkeypatch.setattr(terminals, "SCROLLBACK_BYTES", 100)
    session = await rig.session()
    one = await over(rig, session, "head -c 250 /dev/zero | tr '\\0' x")
    page = await rig.call("terminal.read", **one)
    assert (page["text"], page["dropped"], page["cursor"]) == ("x" * 100, 150, 250)
    page = await rig.call("terminal.read", **one, cursor=200)
    assert (page["text"], page["dropped"]) == ("x" * 50, 0)


async def test_it_waits_for_output_a_bounded_time(rig):
    session = await rig.session()
    opened = await rig.call(
        "terminal.open", session_id=session, command="echo now; read; echo later; cat"
    )
    one = {"session_id": session, "terminal_id": opened["terminal_id"]}
    page = await rig.call("terminal.read", **one, wait_s=60)
    assert page["text"] == "now\r\n"
    await rig.call("terminal.write", **one, text="\r")
    while "later" not in page["text"]:
        page = await rig.call("terminal.read", **one, cursor=page["cursor"], wait_s=60)
    assert page["running"]


async def test_guards(rig):
    session = await rig.session()
    await rig.call("terminal.open", session_id=session, command="true")
    await rig.refuses_strangers("terminal.read", terminal_id="t1")
    await rig.refuses_wrong_types("terminal.read", session_id=session, terminal_id="t1")
