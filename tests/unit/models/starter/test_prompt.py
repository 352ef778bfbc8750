"""How the starter model is asked: small, the same every time, and in one form."""

import msgspec

from tenure.agent.prompt import system_text
from tenure.config import LimitsConfig
from tenure.conversation import Message, ToolCall, ToolSpec
from tenure.models.base import ModelRequest
from tenure.models.starter import prompt
from tenure.models.starter.schemas import STRING_CHARS_MAX
from tenure.tools.registry import small_tools

SYSTEM = system_text(small=True, cwd="/w", system="", date="")
TOOLS = tuple(tool.spec for tool in small_tools(LimitsConfig()))
CHARS_PER_TOKEN = 3.5  # 1,150 characters of this prefix are 329 tokens: a safe estimate


def request(*messages, tools=TOOLS, **more):
    return ModelRequest(SYSTEM, messages or (Message("user", "hello"),), tools, **more)


def test_the_prefix_stays_below_400_tokens():
    said = "".join(f"<|im_start|>{m['role']}{m['content']}" for m in prompt.prefix(request()))
    assert len(said) / CHARS_PER_TOKEN < 480  # the reminder in the example included
    assert len(said) < 1_700


def test_the_prefix_does_not_depend_on_the_conversation():
    first = prompt.prefix(request())
    later = request(Message("user", "a"), Message("assistant", "b"), text_only=True, session_id="x")
    assert prompt.prefix(later) == first
    assert prompt.prefix_key(later, "r") == prompt.prefix_key(request(), "r")
    assert prompt.prefix_key(later, "other") != prompt.prefix_key(request(), "r")
    assert prompt.prefix_key(request(tools=TOOLS[:1]), "r") != prompt.prefix_key(request(), "r")


def test_the_examples_use_only_offered_tools():
    names = {"shell", "write"}
    said = str(prompt.prefix(request(tools=tuple(t for t in TOOLS if t.name not in names))))
    assert '```json\n{"name":"shell"' not in said
    assert "uname" not in said
    assert prompt.prefix(request(tools=())) == [{"role": "system", "content": SYSTEM}]
    assert prompt.prefix(ModelRequest("", ())) == []


def test_no_example_is_about_counting():
    assert "count" not in str(prompt.prefix(request())[1:]).lower()


def test_history_reads_as_the_model_wrote_it():
    call = ToolCall("c", "list", '{"path":"."}')
    told = prompt.conversation(
        (
            Message("user", "look  around"),
            Message("assistant", "Sure.", (call,)),
            Message("tool", "3 files:\na\nb\nc", tool_call_id="c"),
            Message("assistant", "There are three."),
        )
    )
    assert [m["role"] for m in told] == ["user", "assistant", "user", "assistant"]
    assert told[1]["content"] == 'Sure.\n```json\n{"name":"list","arguments":{"path":"."}}\n```'
    assert told[2]["content"].startswith("Result:\n3 files:\na\nb\nc\n\nTask: look around\n")


def test_a_long_task_is_repeated_in_short():
    told = prompt.conversation((Message("user", "x" * 5_000), Message("tool", "r")))
    assert len(told[1]["content"]) < 400


def test_the_grammar_has_one_branch_for_each_tool():
    text = prompt.grammar(TOOLS, text_only=False)
    assert text.startswith("%llguidance {}\nstart: call | text\n")
    line = next(x for x in text.splitlines() if x.startswith("object: %json "))
    schema = msgspec.json.decode(line.removeprefix("object: %json "))
    assert schema["x-guidance"] == {"whitespace_flexible": False}
    names = [branch["properties"]["name"]["const"] for branch in schema["anyOf"]]
    assert names == [t.name for t in TOOLS]
    for branch in schema["anyOf"]:
        arguments = branch["properties"]["arguments"]
        assert arguments["required"] == list(arguments["properties"])
        assert all(p["maxLength"] == STRING_CHARS_MAX for p in arguments["properties"].values())


def test_text_only_leaves_no_way_to_a_call():
    for text in (prompt.grammar(TOOLS, text_only=True), prompt.grammar((), text_only=False)):
        assert "call" not in text


def test_optional_arguments_are_not_shown():
    spec = ToolSpec(
        "read",
        "Read. More.",
        {
            "type": "object",
            "properties": {
                "path": {"type": "string", "description": "long"},
                "limit": {"type": "integer", "default": 3},
            },
            "required": ["path"],
        },
    )
    assert "- read(path): Read." in prompt.prefix(request(tools=(spec,)))[0]["content"]
    assert "limit" not in prompt.grammar((spec,), text_only=False)
    assert "long" not in prompt.grammar((spec,), text_only=False)


def test_the_tiny_model_is_kept_short():
    body = prompt.request_body(request(), chat_only=True)
    assert (body["max_tokens"], body["repeat_penalty"]) == (prompt.CHAT_TOKENS_MAX, 1.2)
    assert prompt.request_body(request(max_tokens=5))["max_tokens"] == 5
