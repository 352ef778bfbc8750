"""One server of one session: started on use, called, told of, stopped when unused."""

from __future__ import annotations

import pytest

from support.toolservers import alive, fake, lines, open_rig
from tenure.errors import ToolError
from tenure.testing.clock import ManualClock
from tenure.testing.waiting import until


async def test_a_call(tmp_path):
    async with open_rig(tmp_path) as rig:
        rig.declare(fake=fake(tmp_path / "f"))
        await rig.listed()
        result = await rig.call("mcp__fake__echo", text="hello")
        assert result.text == "hello" and not result.is_error
        assert len(alive(tmp_path / "f")) == 1
        assert rig.session().rows()[0]["status"] == "ready"
        assert "tool server fake" in rig.held("session:s")
        await rig.close()
        assert alive(tmp_path / "f") == []


async def test_offering_tools_starts_nothing_once_they_are_known(tmp_path):
    async with open_rig(tmp_path) as rig:
        rig.declare(fake=fake(tmp_path / "f"))
        await rig.listed()
        assert len(lines(tmp_path / "f", "starts")) == 1
        await rig.close()
        held = rig.session("other")
        assert "mcp__fake__echo" in {tool.name for tool in held.tools()}
    async with open_rig(tmp_path) as rig:  # another gateway, the same cache
        held = rig.session()
        assert "mcp__fake__echo" in {tool.name for tool in held.tools()}
        assert held.rows()[0]["status"] == "idle"
        assert len(lines(tmp_path / "f", "starts")) == 1
        assert (await rig.call("mcp__fake__echo", text="x")).text == "x"
        assert len(lines(tmp_path / "f", "starts")) == 2


async def test_a_changed_declaration_is_another_server_after_the_old_one(tmp_path):
    async with open_rig(tmp_path) as rig:
        rig.declare(fake=fake(tmp_path / "f"))
        await rig.listed()
        old = (await rig.call("mcp__fake__pid")).text
        rig.declare(fake=fake(tmp_path / "f", env={"A": "1"}))
        await rig.listed()
        new = (await rig.call("mcp__fake__pid")).text
        assert new != old and [str(pid) for pid in alive(tmp_path / "f")] == [new]
        rig.declare()
        assert rig.session().tools() == ()
        await until(lambda: not alive(tmp_path / "f"))


async def test_it_is_stopped_when_unused_and_started_again(tmp_path):
    clock = ManualClock()
    async with open_rig(tmp_path, clock) as rig:
        rig.declare(fake=fake(tmp_path / "f", idle_s=20))
        await rig.listed()
        first = (await rig.call("mcp__fake__pid")).text
        clock.advance(19)
        assert (await rig.call("mcp__fake__pid")).text == first
        clock.advance(19.5)
        await until(lambda: clock.due_in(0.5))  # it has looked, and looks again then
        assert alive(tmp_path / "f")
        clock.advance(1)
        await until(lambda: not alive(tmp_path / "f"))
        await until(lambda: rig.session().rows()[0]["status"] == "idle")
        assert (await rig.call("mcp__fake__pid")).text != first


async def test_a_call_that_runs_is_use(tmp_path):
    clock = ManualClock()
    async with open_rig(tmp_path, clock) as rig:
        rig.declare(fake=fake(tmp_path / "f", idle_s=20, timeout_s=100))
        await rig.listed()
        call = rig.scope().spawn(rig.call("mcp__fake__slow", text="x"), name="call").value
        await until(lambda: lines(tmp_path / "f", "calls") == ["slow"])
        for _ in range(50):
            clock.advance(1)
            await until(lambda: True)
        assert alive(tmp_path / "f") and not call.done()
        call.cancel()


async def test_a_cancelled_call_is_told_to_the_server(tmp_path):
    async with open_rig(tmp_path) as rig:
        rig.declare(fake=fake(tmp_path / "f"))
        await rig.listed()
        call = rig.scope().spawn(rig.call("mcp__fake__slow", text="x"), name="call").value
        await until(lambda: lines(tmp_path / "f", "calls") == ["slow"])
        call.cancel()
        await until(lambda: lines(tmp_path / "f", "cancelled"))
        assert (await rig.call("mcp__fake__echo", text="still")).text == "still"
        assert len(lines(tmp_path / "f", "starts")) == 1


async def test_progress_is_shown_and_a_failure_is_an_error(tmp_path):
    async with open_rig(tmp_path) as rig:
        rig.declare(fake=fake(tmp_path / "f"))
        await rig.listed()
        assert (await rig.call("mcp__fake__progress")).text == "done"
        assert rig.output == ["[1/2] step\n", "[2/2] step\n"]
        assert (await rig.call("mcp__fake__fail")).is_error


async def test_nothing_of_our_environment_reaches_it(tmp_path):
    async with open_rig(tmp_path) as rig:
        rig.declare(fake=fake(tmp_path / "f", env={"MINE": "${SECRET_OF_OURS}", "KEY": "abcdef"}))
        held = await rig.listed()
        assert (await rig.call("mcp__fake__env", text="SECRET_OF_OURS")).text == "(unset)"
        assert (await rig.call("mcp__fake__env", text="MINE")).text == "${SECRET_OF_OURS}"
        assert (await rig.call("mcp__fake__env", text="KEY")).text == "abcdef"
        assert "abcdef" in rig.secrets  # the log hides it
        assert any("${SECRET_OF_OURS} stays" in text for text in held.warnings)


async def test_it_is_started_where_it_says(tmp_path):
    async with open_rig(tmp_path) as rig:
        (tmp_path / "there").mkdir()
        rig.declare(fake=fake(tmp_path / "f", cwd=str(tmp_path / "there")))
        await rig.listed()
        assert (await rig.call("mcp__fake__env", text="PWD")).text == str(tmp_path / "there")


async def test_a_list_that_changes_is_fetched_again(tmp_path):
    async with open_rig(tmp_path) as rig:
        rig.declare(fake=fake(tmp_path / "f"))
        held = await rig.listed()
        assert "mcp__fake__grown_0" not in {tool.name for tool in held.tools()}
        await rig.call("mcp__fake__grow")
        await until(lambda: "mcp__fake__grown_0" in {tool.name for tool in held.tools()})
        assert rig.told  # whoever looks is told


async def test_roots_are_the_working_directory_and_sampling_is_refused(tmp_path):
    async with open_rig(tmp_path) as rig:
        rig.declare(fake=fake(tmp_path / "f"))
        await rig.listed()
        assert (tmp_path / "work").as_uri() in (await rig.call("mcp__fake__roots")).text
        assert "not supported" in (await rig.call("mcp__fake__sample")).text
        assert '"sampling"' not in lines(tmp_path / "f", "clients")[0]


class Person:
    """Answers in turn."""

    def __init__(self, *answers: str | None) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[str, tuple[str, ...]]] = []

    async def clarify(self, question: str, choices: tuple[str, ...]) -> str | None:
        self.asked.append((question, choices))
        return self.answers.pop(0)

    async def secret(self, name: str, why: str) -> str | None:
        raise AssertionError


@pytest.mark.parametrize(("answers", "told"), [
    (("red", "3"), '{"action": "accept", "content": {"colour": "red", "count": 3}}'),
    (("blue", ""), '{"action": "accept", "content": {"colour": "blue"}}'),
    (("decline",), '{"action": "decline"}'),
    ((None,), '{"action": "cancel"}'),
    (("green",), '{"action": "cancel"}'),
])  # fmt: skip
async def test_what_it_asks_a_person_answers(tmp_path, answers, told):
    async with open_rig(tmp_path) as rig:
        rig.declare(fake=fake(tmp_path / "f"))
        await rig.listed()
        person = Person(*answers)
        assert (await rig.call("mcp__fake__ask", person=person)).text == told
        question, choices = person.asked[0]
        assert question.startswith("[fake] Which?") and choices == ("red", "blue", "decline")


async def test_a_url_is_told_not_opened(tmp_path):
    async with open_rig(tmp_path) as rig:
        rig.declare(fake=fake(tmp_path / "f"))
        await rig.listed()
        person = Person("done")
        result = await rig.call("mcp__fake__ask_url", person=person)
        assert result.text == '{"action": "accept"}'
        assert "https://a.test/x" in person.asked[0][0]


async def test_resources_and_prompts(tmp_path):
    async with open_rig(tmp_path) as rig:
        rig.declare(fake=fake(tmp_path / "f"))
        await rig.listed()
        read = {"server": "fake"}
        assert "fake://one: one" in (await rig.call("mcp_read", action="resources", **read)).text
        got = await rig.call("mcp_read", action="resource", uri="fake://one", **read)
        assert "what is in it" in got.text
        assert "greet(who)" in (await rig.call("mcp_read", action="prompts", **read)).text
        got = await rig.call(
            "mcp_read", action="prompt", name="greet", arguments={"who": "Ada"}, **read
        )
        assert got.text == "user: Greet Ada."
        with pytest.raises(ToolError, match="no server"):
            await rig.call("mcp_read", action="prompts", server="other")


async def test_long_lists_are_offered_on_demand(tmp_path):
    async with open_rig(tmp_path) as rig:
        rig.declare(fake=fake(tmp_path / "f", "--tools=40"))
        held = await rig.listed()
        assert {tool.name for tool in held.tools()} == {"tool_search", "mcp_read"}
        found = await rig.call("tool_search", query="something that echoes, echo")
        assert found.text.startswith("mcp__fake__echo: Does echo.")
        assert (await rig.call("mcp__fake__echo", text="lent")).text == "lent"
        assert "Nothing fits" in (await rig.call("tool_search", query="zebra")).text
        for number in range(40):
            await rig.call("tool_search", query=f"extra_{number}", count=1)
        assert len(held.tools()) == 24 + 2  # bounded: the first ones have gone


async def test_long_schemas_are_offered_on_demand_too(tmp_path):
    async with open_rig(tmp_path) as rig:
        rig.declare(fake=fake(tmp_path / "f", "--wordy"))
        held = await rig.listed()
        assert "tool_search" in {tool.name for tool in held.tools()}
        rig.declare(fake=fake(tmp_path / "g"))
        held = await rig.listed()
        assert "tool_search" not in {tool.name for tool in held.tools()}
        assert "tool_search" in {tool.name for tool in held.tools(small=True)}
