"""History made valid, measured and fitted."""

import pytest

from support.examples import given, strategies as st
from tenure.agent.context import (
    CHARS_PER_TOKEN,
    DROPPED,
    Gauge,
    cut_for,
    repair,
    room,
    trim,
)
from tenure.agent.repeats import Repeats
from tenure.conversation import Message, ToolCall, Usage

ids = st.sampled_from(["a", "b", "c"])
messages = st.one_of(
    st.builds(Message, st.just("user"), st.text(max_size=5)),
    st.builds(
        lambda text, names: Message(
            "assistant", text, tool_calls=tuple(ToolCall(name, "t", "{}") for name in names)
        ),
        st.text(max_size=5),
        st.lists(ids, max_size=3, unique=True),
    ),
    st.builds(
        lambda name, text: Message("tool", text, tool_call_id=name), ids, st.text(max_size=9)
    ),
)


def valid(history):
    index = 0
    while index < len(history):
        message = history[index]
        index += 1
        if message.role == "tool":
            return False
        for call in message.tool_calls:
            if index >= len(history) or history[index].tool_call_id != call.id:
                return False
            index += 1
    return True


@given(st.lists(messages, max_size=12))
def test_repair_makes_any_history_valid_and_leaves_a_valid_one_alone(history):
    repaired = repair(history)
    assert valid(repaired)
    assert repair(repaired) == repaired


def call(*names):
    return Message("assistant", "", tool_calls=tuple(ToolCall(name, "t", "{}") for name in names))


def result(name, text="r"):
    return Message("tool", text, tool_call_id=name)


USER = Message("user", "u")
ANSWER = Message("assistant", "a")


def test_what_repair_adds_and_leaves_out():
    broken = [
        result("z"),
        USER,
        call("a", "b"),
        result("b"),
        result("b", "again"),
        Message("assistant"),
    ]
    fixed = repair(broken, "gone")
    assert fixed[:2] == (USER, call("a", "b"))
    assert fixed[2].text == "gone"
    assert fixed[2].is_error
    assert fixed[3:] == (result("b"),)


def test_the_gauge_learns_from_usage_within_bounds():
    gauge = Gauge()
    assert gauge.message(Message("user", "x" * 400)) == 108
    gauge.learn(1_000, Usage(input=2_000))
    assert gauge.chars_per_token == pytest.approx(CHARS_PER_TOKEN * 0.75)
    gauge.learn(1_000_000, Usage(input=1))
    assert gauge.chars_per_token == 8.0
    gauge.learn(10, Usage(input=1_000))  # too little to learn from
    assert gauge.chars_per_token == 8.0
    gauge.learn(1_000, Usage())  # a provider that reports nothing
    assert gauge.chars_per_token == 8.0


def test_there_is_always_some_room():
    assert room(100_000, 4_000) == 76_000
    assert room(1_000, 4_000) == 256


def test_a_cut_keeps_the_end_and_never_parts_a_call_from_its_results():
    history = [
        USER,
        call("a"),
        result("a", "x" * 4_000),
        USER,
        call("b", "c"),
        result("b"),
        result("c"),
    ]
    gauge = Gauge()
    assert cut_for(history, 1, gauge) == 4
    assert cut_for(history, 60, gauge) == 3
    assert cut_for(history, 100_000, gauge) == 0
    assert cut_for([], 10, gauge) == 0
    assert cut_for([USER], 0, gauge) == 0
    one = [Message("user", "x" * 4_000), call("a"), result("a")]
    assert cut_for(one, 60, gauge) == 0, "one item alone is not summarized again and again"


def test_trimming_drops_old_outputs_first_then_old_exchanges_then_shortens():
    big = "x" * 4_000
    history = (USER, call("a"), result("a", big), ANSWER, USER, call("b"), result("b", big), ANSWER)
    gauge = Gauge()
    outputs = trim(history, 1_200, gauge)
    assert [message.text for message in outputs if message.role == "tool"] == [DROPPED, big]
    exchanges = trim((Message("user", big), ANSWER, Message("user", "last")), 500, gauge)
    assert exchanges == (Message("user", "last"),)
    (huge,) = trim((Message("user", big),), 300, gauge)
    assert gauge.message(huge) <= 300
    assert "bytes left out" in huge.text


def test_trimming_drops_large_arguments_of_old_calls():
    old = Message("assistant", "", tool_calls=(ToolCall("a", "write", "x" * 4_000),))
    trimmed = trim((USER, old, result("a"), ANSWER), 300, Gauge())
    assert trimmed[1].tool_calls[0].arguments == "{}"


def test_what_the_model_has_not_seen_yet_is_shortened_and_not_dropped():
    kept = trim((USER, call("a"), result("a", "x" * 4_000)), 300, Gauge())
    assert kept[:2] == (USER, call("a")) and kept[2].text.startswith("xxx")


def test_whole_exchanges_go():
    first = (USER, call("a"), result("a"), ANSWER)
    last = (Message("user", "again"), ANSWER)
    assert trim((*first, *last), 40, Gauge()) == last


def test_shortening_ends_where_nothing_can_be_shortened():
    class Counting(Gauge):
        asked = 0

        def messages(self, messages):
            self.asked += 1
            assert self.asked < 100, "it goes on for ever"
            return super().messages(messages)

    assert trim((USER, ANSWER, USER), 1, Counting())


@given(st.lists(messages, max_size=12), st.integers(1, 400))
def test_a_trimmed_history_is_still_valid(history, tokens_max):
    assert valid(trim(repair(history), tokens_max, Gauge()))


def note(repeats, *texts):
    return repeats.note([("t", "{}", text) for text in texts])


def test_repeats_count_only_while_nothing_new_happens():
    repeats = Repeats(3)
    assert [note(repeats, "a") for _ in range(3)] == [False, False, True]
    repeats = Repeats(2)
    assert not note(repeats, "a")
    assert not note(repeats, "a", "b")
    assert not note(repeats, "c")
    assert not note(repeats, "a")
    assert note(repeats, "a")


def test_alternating_calls_are_a_circle_too():
    repeats = Repeats(3)
    assert True in [note(repeats, text) for text in "ababababab"]
