"""What the reader of shell commands sees, and what it refuses to judge."""

import subprocess

import pytest

from tenure.agent import commands
from tenure.agent.commands import parse_command


def names(text):
    return [part.name for part in parse_command(text).parts]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ls; rm -rf x", ["ls", "rm"]),
        ("ls\nrm x", ["ls", "rm"]),
        ("ls && rm x || cat y", ["ls", "rm", "cat"]),
        ("ls & rm x", ["ls", "rm"]),
        ("ls | tee y", ["ls", "tee"]),
        ("ls |& tee y", ["ls", "tee"]),
        ("! rm x", ["rm"]),
        ("echo $(rm x)", ["echo", "rm"]),
        ("echo `rm x`", ["echo", "rm"]),
        ('echo "a$(echo "b$(rm c)")"', ["echo", "echo", "rm"]),
        ("cat <(rm x)", ["cat", "rm"]),
        ("ls > $(rm x)", ["ls", "rm"]),
        ('cat <<< "$(rm x)"', ["cat", "rm"]),
        ("X=$(rm x) ls", ["ls", "rm"]),
        ("{ rm x; }", ["rm"]),
        ("(rm x)", ["rm"]),
        ("f() { rm x; }; f", ["rm", "f"]),
        ("for i in $(rm x); do ls; done", ["rm", "ls"]),
        ("if true; then rm x; fi", ["true", "rm"]),
        ("while true; do rm x; done", ["true", "rm"]),
        ("time rm x", ["rm"]),
        ("r''m x", ["rm"]),
        ("\\rm x", ["rm"]),
        ("/bin/rm x", ["rm"]),
        ("bash -c 'rm x'", ["bash", "rm"]),
        ("bash -lc \"sh -c 'rm x'\"", ["bash", "sh", "rm"]),
        ("sudo bash -c 'rm x'", ["sudo", "rm"]),
        ("eval rm x", ["eval", "rm"]),
        ("trap 'rm x' EXIT", ["trap", "rm"]),
        ("echo a # ; rm x", ["echo"]),
        ("grep '<<E' x", ["grep"]),
    ],
)
def test_every_simple_command_is_seen(text, expected):
    parsed = parse_command(text)
    assert parsed.opaque == ""
    assert [part.name for part in parsed.parts] == expected


@pytest.mark.parametrize(
    "text",
    [
        "echo ${x:-$(rm y)}",
        "echo ${",
        "cat <<EOF\n$(rm x)\nEOF",
        "cat <<'EOF'\nEOF\nrm x\n'EOF'",
        "cat $'\\x2fetc/passwd'",
        'echo $"x"',
        "ls\r\nrm x",
        "ls\x00rm",
        "ls\u00a0rm x",
        "ls \u202e x",
        "ls \\\n; rm x",
        "case x in x) rm y;; esac",
        "[[ -f x ]] && rm x",
        "echo $((1+$(rm x)))",
        "coproc rm x",
        "arr=(a $(rm b))",
        "$X y",
        "/bin/r? x",
        "{rm,-rf,x}",
        "`echo rm` x",
        "sudo $X",
        "$X bash -c ls",
        "bash -c 'ls; $X'",
        "ls (",
        "(ls",
        "echo $(ls",
        "cat <<-E\nrm x\nE\nls",
        "ls '",
        "",
        "#",
        "ls " + "a" * commands.COMMAND_CHARS_MAX,
        "echo " + "$(" * 300 + "ls" + ")" * 300,
    ],
)
def test_what_cannot_be_judged_is_opaque(text):
    assert parse_command(text).opaque


@pytest.mark.parametrize(
    ("text", "targets"),
    [
        ("ls > f", ("f",)),
        ("ls >> f", ("f",)),
        ("ls >| f", ("f",)),
        ("ls &> f", ("f",)),
        ("ls >& f", ("f",)),
        ("3>f ls", ("f",)),
        ("ls 2>&1", ()),
        ("ls 2> /dev/null", ()),
        ("{ ls; } > f", ("f",)),
        ("(ls) > f", ("f",)),
        ("for i in a; do ls; done >> f", ("f",)),
    ],
)
def test_writing_redirections_are_seen(text, targets):
    parts = parse_command(text).parts
    assert tuple(target for part in parts for target in part.writes) == targets


@pytest.mark.parametrize("piece", ["(", "$(", "${", "{ ", "`", "<(", "((", "if ", "a|", "x=("])
def test_every_input_ends_and_unfinished_ones_are_opaque(piece):
    assert parse_command(piece * (commands.COMMAND_CHARS_MAX // len(piece))).opaque


def test_texts_in_texts_have_a_depth():
    text = "rm x"
    for _ in range(commands.DEPTH_MAX + 1):
        quoted = text.replace("\\", "\\\\").replace('"', '\\"')
        text = f'bash -c "{quoted}"'
    assert parse_command(text).opaque == "too deeply nested"


@pytest.mark.needs("bash")
@pytest.mark.parametrize(
    "text",
    [
        "echo a#b",
        "echo 'a'\"b\"c",
        "echo a\\ b",
        "echo a; echo b",
        "echo x | cat",
        "echo {a} '#' b",
    ],
)
def test_words_are_those_of_bash(text):
    """The reader agrees with the shell on what an echo would say."""
    said = subprocess.run(["bash", "-c", text], capture_output=True, text=True, check=True).stdout
    parts = [part for part in parse_command(text).parts if part.name == "echo"]
    assert said == "".join(" ".join(part.words[1:]) + "\n" for part in parts)
