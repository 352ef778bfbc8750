"""What a turn does, and what is left when it is cut."""

import asyncio
import dataclasses
import itertools

import pytest

from tenure.agent import loop, toolcalls
from tenure.agent.context import repair
from tenure.agent.loop import run_turn
from tenure.agent.ports import (
    AssistantDone,
    ContextFilling,
    Decision,
    Policy,
    StatusNote,
    TextDelta,
    ToolFinished,
)
from tenure.agent.toolcalls import TOOL_GRACE_S
from tenure.agent.writing import WRITE_S
from tenure.config import ApprovalRule, LimitsConfig
from tenure.conversation import Message, ToolCall, Upload, Usage
from tenure.errors import (
    InternalError,
    ModelBlind,
    ModelError,
    ModelGarbage,
    ScopeClosed,
    StoreError,
)
from tenure.lifecycle.lease import KILL_GRACE_S
from tenure.lifecycle.scope import Scope
from tenure.models import base
from tenure.models.base import BLIND
from tenure.testing.clock import ManualClock, settle
from tenure.testing.gates import Gate
from tenure.testing.journal import MemoryAsker, MemoryJournal
from tenure.testing.tools import PlainTool, scripted_tool
from tenure.testing.turns import CancelAt, PlayedModel, calls, ports_of, says, turn_of, unpaired
from tenure.tools.base import Effect, ToolResult

PROMPT = Message("user", "do it")


class Bench:
    """One turn with its fakes, in a scope of its own."""

    def __init__(
        self,
        model,
        tools=(),
        *,
        asker=None,
        limits=None,
        items=(PROMPT,),
        steered=None,
        journal=None,
        **ports,
    ):
        self.clock = ManualClock()
        self.root = Scope.root("test", self.clock)
        self.scope = self.root.child("turn")
        self.journal = journal or MemoryJournal(items)
        self.asker = asker or MemoryAsker()
        self.model = model
        self.turn = turn_of(model, tools, limits=limits)
        kwargs = {"steered": steered} if steered else {}
        made = ports_of(self.scope, self.clock, self.journal, self.asker, **kwargs)
        self.ports = dataclasses.replace(made, **ports)

    def run(self):
        return run_turn(self.turn, self.ports)

    async def close(self):
        assert self.scope.census() == []
        await self.root.close()

    def check_valid(self):
        items = tuple(self.journal.items)
        assert repair(items) == items
        assert unpaired(self.journal.published) == []
        assert self.model.open_streams == 0


async def run(model, tools=(), **kwargs):
    bench = Bench(model, tools, **kwargs)
    bench.end = await bench.run()
    await bench.close()
    bench.check_valid()
    return bench


def args(text, **more):
    import json

    return json.dumps({"text": text, **more})


# --- the plain course -----------------------------------------------------------------------------


async def test_an_answer_is_streamed_stored_and_ends_the_turn():
    bench = await run(PlayedModel(says("hello there")))
    assert (bench.end.state, bench.end.cause, bench.end.text) == ("completed", "stop", "hellothere")
    assert bench.end.usage == Usage(10, 5)
    assert bench.journal.items == [PROMPT, Message("assistant", "hellothere")]
    deltas = [event.text for event in bench.journal.published if isinstance(event, TextDelta)]
    assert deltas == ["hello", "there"]
    (done,) = [event for event in bench.journal.durable if isinstance(event, AssistantDone)]
    assert (done.text, done.final, done.status) == ("hellothere", True, "complete")


async def test_results_go_back_in_source_order_though_they_end_in_another():
    slow, fast = Gate(), scripted_tool("fast")
    tools = [scripted_tool("slow", gate=slow), fast]
    model = PlayedModel(calls(("slow", args("one")), ("fast", args("two")), text="let me see"))
    bench = Bench(model, tools)
    task = asyncio.create_task(bench.run())
    await slow.wait_parked()
    await settle()
    assert fast.effects == ["two"]
    assert [item.role for item in bench.journal.items] == ["user", "assistant"]
    slow.release()
    end = await task
    await bench.close()
    bench.check_valid()
    assert [item.text for item in bench.journal.items[2:]] == ["one", "two", "done"]
    assert [item.tool_call_id for item in bench.journal.items[2:4]] == ["c0", "c1"]
    assert end.usage == Usage(20, 10)
    assert end.steps == 2
    assert model.requests[1].messages == tuple(bench.journal.items[:4])


async def test_calls_that_write_run_one_after_another_and_others_side_by_side():
    gate = Gate()
    write = scripted_tool("write", effect=Effect.WRITE)
    read = scripted_tool("read", gate=gate)
    wanted = [("write", args("a")), ("read", args("b")), ("write", args("c")), ("read", args("d"))]
    bench = Bench(
        PlayedModel(calls(*wanted)), [write, read], asker=MemoryAsker(policy=Policy(yes=True))
    )
    task = asyncio.create_task(bench.run())
    await gate.wait_parked()
    await settle()
    gate.release()
    await task
    await bench.close()
    assert (write.effects, write.most_running) == (["a", "c"], 1)
    assert read.most_running == 2


async def test_steered_input_is_stored_before_the_next_step_and_keeps_the_turn_going():
    waiting = [Message("user", "also this")]

    def steered():
        taken, waiting[:] = tuple(waiting), []
        return taken

    def arrives():
        waiting.append(Message("user", "and that"))

    model = PlayedModel([base.TextDelta("first"), arrives, base.Finished("stop", Usage())])
    bench = await run(model, steered=steered)
    texts = [item.text for item in bench.journal.items]
    assert texts == ["do it", "also this", "first", "and that", "done"]
    assert bench.end.text == "done"


async def test_what_the_model_is_to_be_told_is_stored_before_the_next_step_and_makes_none():
    waiting = [Message("user", "[one has ended]", note=True)]
    journal = MemoryJournal([PROMPT])

    def noted():
        return journal.item(waiting.pop()) if waiting else None

    def arrives():
        waiting.append(Message("user", "[another has ended]", note=True))

    model = PlayedModel([base.TextDelta("so"), arrives, base.Finished("stop", Usage())])
    bench = await run(model, journal=journal, noted=noted)
    assert [item.text for item in journal.items] == ["do it", "[one has ended]", "so"]
    assert (bench.end.text, bench.end.steps, len(waiting)) == ("so", 1, 1), "it waits for a turn"


async def test_a_cut_after_late_input_is_no_completed_turn():
    async def cut_at(*numbers):
        waiting = []

        def steered():
            taken, waiting[:] = tuple(waiting), []
            return taken

        def arrives():
            waiting.append(Message("user", "and that"))

        play = [base.TextDelta("first"), arrives, base.Finished("stop", Usage())]
        bench = Bench(PlayedModel(play), steered=steered)
        counted = CancelAt(bench.run(), *numbers)
        end = await counted
        await bench.close()
        bench.check_valid()
        assert (end.state == "completed") == answered(bench.journal)
        return bench.journal.items[-1].text, end.state, counted.awaits

    _, _, awaits = await cut_at()
    ends = {(await cut_at(number))[:2] for number in range(1, awaits + 1)}
    assert ("and that", "interrupted") in ends


async def test_a_history_cut_by_a_crash_is_mended_for_the_model():
    items = [PROMPT, Message("assistant", tool_calls=(ToolCall("x", "probe", "{}"),)), PROMPT]
    bench = Bench(PlayedModel(says("ok")), items=items)
    await bench.run()
    await bench.close()
    sent = bench.model.requests[0].messages
    assert [message.role for message in sent] == ["user", "assistant", "tool", "user"]
    assert "unknown" in sent[2].text


async def test_what_came_meanwhile_is_offered_from_the_next_step_on_after_what_was():
    late, twice = scripted_tool("late"), scripted_tool("probe")
    came = []
    play = [lambda: came.extend([late, twice]), *calls(("probe", args("a")))]
    model = PlayedModel(play, calls(("late", args("b")), ("probe", args("c"))))
    probe = scripted_tool("probe")
    bench = await run(model, [probe], more_tools=lambda: tuple(came))
    offered = [[spec.name for spec in request.tools] for request in model.requests]
    assert offered == [["probe"], ["probe", "late"], ["probe", "late"]]
    assert (late.effects, probe.effects, twice.effects) == (["b"], ["a", "c"], [])
    assert bench.end.state == "completed"


async def test_what_is_there_is_saved_before_anything_changes():
    write, read = scripted_tool("write", effect=Effect.WRITE), scripted_tool("read")
    saved = []

    async def save():
        await asyncio.sleep(0)
        saved.append(list(write.started))

    wanted = calls(("read", args("a")), ("write", args("b")))
    await run(PlayedModel(wanted), [write, read], before_change=save)
    assert saved == [[]], "once, before it began; reading changes nothing"
    assert write.effects == ["b"]


async def test_a_close_before_a_tool_has_begun_is_no_failure():
    write, failures = scripted_tool("write", effect=Effect.WRITE), []

    async def save():
        bench.root.on_failure = lambda failure, error: failures.append(failure)
        bench.scope.claim("closing")
        raise ScopeClosed("The turn is being closed.")

    bench = Bench(PlayedModel(calls(("write", args("a")))), [write], before_change=save)
    await bench.run()
    await bench.root.close()
    (result,) = (item for item in bench.journal.items if item.role == "tool")
    assert result.text == "Not run: interrupted by the gateway."
    assert not failures and not write.effects


async def test_what_a_result_brings_is_delivered_with_it_and_what_it_cost_counts():
    class Bringing(PlainTool):
        async def call(self, arguments, ctx):
            return ToolResult("news", usage=Usage(100, 10), notes=("n1",))

    bench = await run(PlayedModel(calls(("plain", "{}"))), [Bringing()])
    assert bench.journal.delivered == ("n1",)
    assert bench.end.usage == Usage(120, 20)


async def test_no_wait_stands_between_an_answer_and_its_tools():
    """The turn's end does not depend on time: nothing in it sleeps."""
    bench = await run(PlayedModel(calls(("probe", "{}"))), [scripted_tool()])
    assert bench.clock.pending == 0


# --- what models write ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("nothing", "{}", "There is no tool 'nothing'; the tools are: probe, plain."),
        ("probe", "{", "The arguments of probe are no JSON object: '{'."),
        ("probe", "[1]", "The arguments of probe are no JSON object: '[1]'."),
        ("probe", '{"text": 5, "fail": "maybe"}', "The arguments of probe are wrong:"),
        ("plain", "null", "The arguments of plain are no JSON object: 'null'."),
        ("probe", args("x", fail=True), "x failed."),
        ("probe", args("x", crash=True), "The tool probe failed inside; see log entry err_"),
    ],
)
async def test_a_call_that_cannot_be_done_becomes_an_error_result(name, arguments, said, caplog):
    bench = await run(PlayedModel(calls((name, arguments))), [scripted_tool(), PlainTool()])
    result = bench.journal.items[2]
    assert result.is_error
    assert result.text.startswith(said)
    assert bench.end.state == "completed"


async def test_the_log_of_a_broken_tool_says_where_but_not_about_what(caplog):
    await run(PlayedModel(calls(("probe", args("a-canary", crash=True)))), [scripted_tool()])
    assert "ZeroDivisionError" in caplog.text
    assert "tools.py" in caplog.text
    assert "a-canary" not in caplog.text


async def test_history_keeps_only_arguments_that_are_objects_and_distinct_ids():
    bad = [
        base.ToolCallReady(ToolCall("", "plain", "")),
        base.ToolCallReady(ToolCall("x", "plain", "{oops")),
        base.ToolCallReady(ToolCall("x", "plain", '{"a": 1}')),
        base.Finished("tool_calls", Usage()),
    ]
    bench = await run(PlayedModel(bad), [PlainTool()])
    stored = bench.journal.items[1].tool_calls
    assert [call.arguments for call in stored] == ["{}", "{}", '{"a": 1}']
    assert len({call.id for call in stored}) == 3


async def test_a_call_printed_as_text_is_text():
    bench = await run(PlayedModel(says('{"name": "probe", "arguments": {}}')), [scripted_tool()])
    assert bench.end.state == "completed"
    assert bench.end.text == '{"name":"probe","arguments":{}}'


async def test_nothing_as_an_answer_is_a_failure_told_in_a_sentence():
    bench = await run(PlayedModel([base.Finished("stop", Usage())]))
    assert (bench.end.state, bench.end.cause) == ("failed", "model")
    assert bench.end.error.message == "played:one answered nothing; ask again or differently."
    assert bench.journal.items == [PROMPT]


async def test_a_length_that_is_used_up_before_the_first_word_is_a_failure():
    bench = await run(PlayedModel([base.ReasoningDelta("hm"), base.Finished("length", Usage())]))
    assert bench.end.state == "failed"
    assert bench.end.error.message == "played:one used up its length before the first word."


async def test_nothing_after_tools_is_an_end():
    model = PlayedModel(calls(("probe", "{}"), text="doing"), [base.Finished("stop", Usage())])
    bench = await run(model, [scripted_tool()])
    assert (bench.end.state, bench.end.text) == ("completed", "doing")


@pytest.mark.parametrize(
    ("reason", "state", "cause"),
    [("length", "completed", "length"), ("content_filter", "refused", "content_filter")],
)
async def test_other_ways_to_stop(reason, state, cause):
    bench = await run(PlayedModel([base.TextDelta("a"), base.Finished(reason, Usage())]))
    assert (bench.end.state, bench.end.cause, bench.end.text) == (state, cause, "a")


async def test_a_stream_without_an_end_is_garbage():
    bench = await run(PlayedModel([base.TextDelta("a")]))
    assert isinstance(bench.end.error, ModelGarbage)
    assert bench.journal.items[-1] == Message("assistant", "a")


# --- limits ---------------------------------------------------------------------------------------


async def test_the_last_step_of_the_limit_is_followed_by_an_answer_without_tools():
    plays = [calls(("probe", args(str(number)))) for number in range(3)]
    model = PlayedModel(*plays, says("so far"))
    bench = await run(model, [scripted_tool()], limits=LimitsConfig(steps_max=3))
    assert (bench.end.state, bench.end.cause, bench.end.text) == ("completed", "steps", "sofar")
    assert [request.text_only for request in model.requests] == [False, False, False, True]
    assert "limit of 3 steps" in model.requests[3].messages[-1].text
    assert bench.journal.items[-2].role == "tool"  # the note is not stored


async def test_going_round_in_circles_ends_with_a_sentence():
    same = calls(("probe", args("same")))
    model = PlayedModel(same, same, same, same)
    bench = await run(model, [scripted_tool()], limits=LimitsConfig(repeat_max=3))
    assert (bench.end.cause, len(model.requests)) == ("repeat", 4)
    assert bench.end.text == "Stopped: the same call gave the same result again."
    assert bench.journal.items[-1].text == bench.end.text
    model = PlayedModel(same, same, same, small=True)
    bench = await run(model, [scripted_tool()], limits=LimitsConfig(repeat_max=3))
    assert (bench.end.cause, len(model.requests)) == ("repeat", 3), "a small one sooner"


async def test_progress_between_equal_calls_is_no_circle():
    check = calls(("probe", args("check")))
    plays = [play for number in range(4) for play in (calls(("probe", args(str(number)))), check)]
    bench = await run(PlayedModel(*plays), [scripted_tool()], limits=LimitsConfig(repeat_max=2))
    assert bench.end.cause == "stop"


def looking(text, tokens):
    """A call of `probe`, by a model that reports what it took in."""
    ready = base.ToolCallReady(ToolCall(text, "probe", args(text)))
    return [ready, base.Finished("tool_calls", Usage(tokens, 5))]


@pytest.mark.parametrize("told", [False, True])
async def test_that_a_summary_is_near_is_told_once(told):
    long = Message("user", "word " * 2_320)
    plays = [looking("a", 2_915), looking("b", 2_940), says("ok", input=2_960)]
    bench = Bench(PlayedModel(*plays, context_tokens=4_000), [scripted_tool()], items=(long,))
    bench.turn = dataclasses.replace(bench.turn, filling=told)
    end = await bench.run()
    await bench.close()
    near = [event for event in bench.journal.published if isinstance(event, ContextFilling)]
    assert (len(near), end.filling) == (0 if told else 1, True)


async def test_a_text_of_a_prompt_leaves_room_for_the_rest():
    async def whole(digests):
        return dict.fromkeys(digests, b"y" * 60_000)

    file = Upload(id="f", digest="d", kind="text", type="text/plain", name="a.txt", size=9, chars=9)
    bench = await run(
        PlayedModel(says("ok"), context_tokens=2_000),
        items=(Message("user", "read", files=(file,)),),
        uploads=whole,
    )
    assert len(bench.model.requests[0].messages[0].text) < 3_500


async def test_images_that_a_model_cannot_see_are_told_of_once_and_refused_if_just_asked():
    file = Upload(id="f", digest="d", kind="image", type="image/png", name="a.png", size=9)
    asked = Message("user", "look", files=(file,))
    model = PlayedModel(calls(("probe", args("a"))))
    model.sight = BLIND
    bench = await run(model, [scripted_tool()], items=(asked, Message("assistant", "hm"), PROMPT))
    notes = [event.text for event in bench.journal.published if isinstance(event, StatusNote)]
    assert notes == ["played:one cannot see images, so it is not shown a.png."]
    bench = await run(model, items=(asked,))
    assert isinstance(bench.end.error, ModelBlind)


async def test_a_long_result_is_clipped():
    tool = scripted_tool()
    model = PlayedModel(calls(("probe", args("x" * 5_000))))
    bench = await run(model, [tool], limits=LimitsConfig(tool_output_bytes_max=1_000))
    assert len(bench.journal.items[2].text) < 2_200
    assert "bytes left out" in bench.journal.items[2].text


# --- approvals ------------------------------------------------------------------------------------


def shell_like():
    return scripted_tool("run", effect=Effect.EXECUTE)


async def test_a_denied_call_does_not_run_and_the_model_is_told_why():
    tool = shell_like()
    asker = MemoryAsker(Decision("deny", "not today"))
    bench = await run(
        PlayedModel(calls(("run", args("x")), ("run", args("y")))), [tool], asker=asker
    )
    assert tool.effects == ["y"]
    assert [item.text for item in bench.journal.items[2:4]] == ["Denied: not today", "y"]
    assert (bench.end.state, bench.end.denied) == ("completed", 1)
    outcomes = [event.outcome for event in bench.journal.durable if isinstance(event, ToolFinished)]
    assert outcomes == ["denied", "done"]


async def test_a_denial_may_end_the_turn_before_anything_ran():
    tool = shell_like()
    asker = MemoryAsker(Decision("once"), Decision("deny", end_turn=True))
    wanted = [("run", args(text)) for text in "abc"]
    bench = await run(PlayedModel(calls(*wanted)), [tool], asker=asker)
    assert tool.started == []
    assert len(asker.asked) == 2, "nobody is asked on about a turn that is over"
    assert (bench.end.state, bench.end.cause, bench.end.denied) == ("refused", "denied", 1)


async def test_an_answer_for_the_session_covers_the_next_call_of_the_step():
    asker = MemoryAsker(Decision("session"))
    tool = shell_like()
    bench = await run(
        PlayedModel(calls(("run", args("x")), ("run", args("y")))), [tool], asker=asker
    )
    assert tool.effects == ["x", "y"]
    assert len(bench.asker.asked) == 1


async def test_a_rule_denies_without_a_question():
    policy = Policy(rules=(ApprovalRule("deny", tool="run"),), yes=True)
    asker = MemoryAsker(policy=policy)
    bench = await run(PlayedModel(calls(("run", args("x")))), [shell_like()], asker=asker)
    assert asker.asked == []
    assert bench.journal.items[2].text == "Denied: A rule denies run."


async def test_what_is_asked_about_is_what_the_tool_will_read():
    asker = MemoryAsker()
    wanted = calls(("run", '{"text": "x", "fail": false, "extra": 1}'), ("run", '{"text": 5}'))
    bench = await run(PlayedModel(wanted), [shell_like()], asker=asker)
    assert [question.subject for question in asker.asked] == [
        '{"text":"x","fail":false,"crash":false}'
    ]
    assert bench.journal.items[3].text.startswith("The arguments of run are wrong:")


class ShellLike(PlainTool):
    name = "shell"
    effect = Effect.EXECUTE


async def test_a_command_is_judged_by_what_is_decided_when_it_can_be_read(monkeypatch):
    asker, imported = MemoryAsker(policy=Policy(yes=True)), []

    async def import_slowly(name):
        imported.append(name)
        await asyncio.sleep(0)
        asker._policy = Policy(rules=(ApprovalRule("deny", tool="shell", command="rm *"),))

    monkeypatch.setattr(toolcalls, "import_off_loop", import_slowly)
    wanted = calls(("shell", '{"command": "rm x"}'))
    bench = await run(PlayedModel(wanted), [ShellLike()], asker=asker)
    assert imported == ["tree_sitter_bash", "tree_sitter"], "in a thread: it takes a while"
    assert bench.journal.items[2].text == "Denied: A rule denies the command 'rm x'."


# --- failures -------------------------------------------------------------------------------------


def eventful():
    """Two steps with everything in them, and an end."""
    first = [
        base.Progress("loading"),
        base.ReasoningDelta("hm"),
        base.TextDelta("I "),
        base.TextDelta("look"),
        base.ToolCallStarted(0, "read"),
        base.ToolCallReady(ToolCall("a", "read", args("one"))),
        base.ToolCallReady(ToolCall("b", "write", args("two"))),
        base.ToolCallReady(ToolCall("c", "write", args("three"))),
        base.Finished("tool_calls", Usage(5, 5)),
    ]
    second = [
        base.ToolCallReady(ToolCall("d", "run", args("four"))),
        base.Finished("tool_calls", Usage(5, 5)),
    ]
    return [first, second, says("all done")]


def eventful_tools():
    return [
        scripted_tool("read"),
        scripted_tool("write", effect=Effect.WRITE),
        scripted_tool("run", effect=Effect.EXECUTE),
    ]


@pytest.mark.parametrize("at", range(13))
@pytest.mark.parametrize("error", [ModelError("no answer (503)."), RuntimeError("a bug")])
async def test_a_failure_at_any_event_of_the_model(at, error, caplog):
    plays = eventful()
    flat = [(number, index) for number, play in enumerate(plays) for index in range(len(play) + 1)]
    number, index = flat[at]
    plays[number] = [*plays[number][:index], error]
    bench = await run(PlayedModel(*plays), eventful_tools())
    assert bench.end.state == "failed"
    if isinstance(error, ModelError):
        assert (bench.end.cause, bench.end.error) == ("model", error)
    else:
        assert isinstance(bench.end.error, InternalError)
        assert bench.end.error.error_id in bench.end.error.message
    said = "".join(e.text for e in bench.journal.published if isinstance(e, TextDelta))
    assert said == "".join(item.text for item in bench.journal.items if item.role == "assistant")


async def test_progress_of_the_model_is_passed_on():
    bench = await run(PlayedModel(*eventful()), eventful_tools())
    assert StatusNote("loading") in bench.journal.published
    assert bench.end.steps == 3


@pytest.mark.parametrize("at", range(1, 12))
async def test_a_failing_store_ends_the_turn_and_leaves_nothing_running(at, caplog):
    bench = Bench(PlayedModel(*eventful()), eventful_tools())
    bench.journal.fail_at = at
    end = await bench.run()
    await bench.close()
    assert (end.state, end.cause) == ("failed", "store")
    assert isinstance(end.error, StoreError)
    items = tuple(bench.journal.items)
    assert repair(items) == items
    assert bench.model.open_streams == 0


# --- interrupts -----------------------------------------------------------------------------------


async def count_awaits():
    bench = Bench(PlayedModel(*eventful()), eventful_tools())
    counted = CancelAt(bench.run())
    await counted
    await bench.close()
    return counted.awaits


async def interrupted_at(*numbers):
    tools = eventful_tools()
    bench = Bench(PlayedModel(*eventful()), tools)
    end = await CancelAt(bench.run(), *numbers)
    await bench.close()
    bench.check_valid()
    return bench, end, tools


async def test_a_cancel_at_any_await_leaves_history_valid_and_events_paired():
    awaits = await count_awaits()
    assert awaits > 30
    for number in range(1, awaits + 1):
        bench, end, tools = await interrupted_at(number)
        check_interrupted(bench, end, tools)


class Acknowledging(MemoryJournal):
    """What is written is there before the writer hears of it."""

    async def item(self, message, *, events=(), notes=()):
        await super().item(message, events=events, notes=notes)
        await asyncio.sleep(0)


async def test_a_cancel_after_a_write_is_answered_when_the_writer_has_heard_of_it():
    async def cut_at(*numbers):
        tools = eventful_tools()
        bench = Bench(PlayedModel(*eventful()), tools, journal=Acknowledging([PROMPT]))
        counted = CancelAt(bench.run(), *numbers)
        end = await counted
        await bench.close()
        bench.check_valid()
        return bench, end, tools, counted.awaits

    awaits = (await cut_at())[3]
    for number in range(1, awaits + 1):
        check_interrupted(*(await cut_at(number))[:3])


async def test_a_second_cancel_during_the_end_changes_nothing():
    awaits = await count_awaits()
    for number, more in itertools.product(range(1, awaits, 3), (1, 2, 3)):
        bench, end, tools = await interrupted_at(number, number + more)
        check_interrupted(bench, end, tools)


def answered(journal):
    """Whether a whole last answer is the last thing in history."""
    done = [event for event in journal.durable if isinstance(event, AssistantDone)]
    whole = bool(done) and done[-1].final and done[-1].status == "complete"
    return whole and journal.items[-1].role == "assistant"


def check_interrupted(bench, end, tools):
    items = bench.journal.items
    assert (end.state == "completed") == answered(bench.journal)
    if end.state == "completed":
        return
    assert (end.state, end.cause) == ("interrupted", "user")
    said = "".join(e.text for e in bench.journal.published if isinstance(e, TextDelta))
    assert said == "".join(item.text for item in items if item.role == "assistant")
    effects = {text for tool in tools for text in tool.effects}
    started = {text for tool in tools for text in tool.started}
    words = {"a": "one", "b": "two", "c": "three", "d": "four"}
    for item in items:
        if item.role != "tool":
            continue
        text = words[item.tool_call_id]
        if item.text.startswith("Not run"):
            assert text not in started
        elif item.is_error:
            assert item.text == "Interrupted by the user; the outcome is unknown."
        else:
            assert text in effects


@pytest.mark.parametrize("cause", ["user", "client", "timeout", "shutdown", "crash"])
async def test_the_cause_of_an_interrupt_is_told(cause):
    gate = Gate()
    bench = Bench(
        PlayedModel(calls(("probe", args("x")), ("probe", args("y")))), [scripted_tool(gate=gate)]
    )
    task = asyncio.create_task(bench.run())
    await gate.wait_parked()
    task.cancel(cause)
    end = await task
    await bench.close()
    bench.check_valid()
    assert (end.state, end.cause) == ("interrupted", cause)
    assert bench.journal.items[2].text.startswith("Interrupted by")


async def test_partial_text_is_kept():
    gate = Gate()
    bench = Bench(PlayedModel([base.TextDelta("half a "), gate.park]))
    task = asyncio.create_task(bench.run())
    await gate.wait_parked()
    task.cancel()
    end = await task
    await bench.close()
    bench.check_valid()
    assert end.text == "half a "
    assert bench.journal.items[-1] == Message("assistant", "half a ")
    assert bench.journal.durable[-1].status == "interrupted"


async def test_a_store_that_hangs_cannot_hold_an_interrupt_for_ever(caplog):
    bench = Bench(PlayedModel(says("hello")))
    gate = Gate()
    bench.journal.before_write = gate.park
    task = asyncio.create_task(bench.run())
    await gate.wait_parked()
    task.cancel()
    await settle()
    assert not task.done()
    bench.clock.advance(WRITE_S)
    await settle()
    assert gate.parked == 1, "the end is written after what could not be written"
    bench.clock.advance(loop.FINISH_S)
    await settle()
    assert task.done()
    end = task.result()
    await bench.close()
    assert (end.state, end.cause) == ("failed", "store")
    assert end.error.message == "The store did not answer within 10 s."


async def test_tools_that_hear_no_cancel_are_given_up_all_at_once():
    gate = Gate()
    wanted = [("probe", args(f"{number}")) for number in range(6)]
    bench = Bench(PlayedModel(calls(*wanted)), [scripted_tool(gate=gate, deaf=True)])
    task = asyncio.create_task(bench.run())
    await gate.wait_parked()
    await settle()
    task.cancel()
    await settle()
    for seconds in (TOOL_GRACE_S, KILL_GRACE_S):
        assert not task.done()
        bench.clock.advance(seconds)
        await settle()
    assert task.done(), "together they take no longer than one"
    end = task.result()
    gate.release()
    await settle()
    await bench.close()
    bench.check_valid()
    assert (end.state, end.cause) == ("interrupted", "user")
    assert {item.text for item in bench.journal.items[2:]} == {
        "Interrupted by the user; the outcome is unknown."
    }


async def test_an_interrupt_waits_for_what_a_tool_still_does():
    at_work, tidying = Gate(), Gate()

    class Tidy(PlainTool):
        async def call(self, arguments, ctx):
            try:
                await at_work.park()
            finally:
                await tidying.park()

    bench = Bench(PlayedModel(calls(("plain", "{}"))), [Tidy()])
    task = asyncio.create_task(bench.run())
    await at_work.wait_parked()
    task.cancel()
    await settle()
    assert tidying.parked == 1 and not task.done()
    assert [item.role for item in bench.journal.items] == ["user", "assistant"]
    tidying.release()
    assert (await task).state == "interrupted"
    await bench.close()
    bench.check_valid()


async def test_a_call_whose_task_was_ended_by_others_has_a_result():
    class Ended(PlainTool):
        async def call(self, arguments, ctx):
            raise asyncio.CancelledError

    bench = await run(PlayedModel(calls(("plain", "{}"))), [Ended()])
    assert bench.journal.items[2].text == "Interrupted by the gateway; the outcome is unknown."
    assert bench.end.state == "completed"


async def test_a_closed_scope_ends_the_turn_as_interrupted():
    gate = Gate()
    model = PlayedModel([gate.park, *calls(("probe", "{}"))])
    bench = Bench(model, [scripted_tool()])
    task = asyncio.create_task(bench.run())
    await gate.wait_parked()
    bench.scope.claim("closing")
    gate.release()
    end = await task
    await bench.close()
    bench.check_valid()
    assert (end.state, end.cause) == ("interrupted", "shutdown")
    assert bench.journal.items[2].text.startswith("Not run")
