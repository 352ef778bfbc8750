"""What runs unasked, what is asked, what is refused."""

import pytest

from tenure.agent.approvals import Allow, Ask, Call, Deny, decide
from tenure.agent.ports import Policy
from tenure.config import ApprovalRule
from tenure.tools.base import Effect

CWD = "/home/user/project"
EFFECTS = {
    "read": Effect.READ,
    "list": Effect.READ,
    "glob": Effect.READ,
    "search": Effect.READ,
    "write": Effect.WRITE,
    "edit": Effect.WRITE,
    "shell": Effect.EXECUTE,
    "background": Effect.EXECUTE,
    "fetch": Effect.EXECUTE,
    "browser_save": Effect.WRITE,
}


def rule(decision, tool="*", **match):
    return ApprovalRule(decision=decision, tool=tool, **match)


def judge(tool, policy=None, **arguments):
    return decide(policy or Policy(), Call("c1", tool, EFFECTS[tool], arguments, CWD))


def shell(command, *rules, grants=(), yes=False):
    return judge("shell", Policy(rules=rules, grants=tuple(grants), yes=yes), command=command)


@pytest.mark.parametrize("tool", ["read", "list", "glob", "search"])
def test_reading_inside_is_allowed(tool):
    assert judge(tool, path="src/a.py") == Allow()
    assert judge(tool, path=f"{CWD}/src") == Allow()


@pytest.mark.parametrize("tool", ["write", "edit"])
def test_writing_inside_is_asked(tool):
    verdict = judge(tool, path="src/a.py")
    assert isinstance(verdict, Ask)
    assert verdict.question.subject == "src/a.py"
    assert verdict.question.grants == (rule("allow", tool, path="src/*"),)
    assert verdict.question.patterns == (f"{tool}: src/*",)


@pytest.mark.parametrize("path", ["../x", "/etc/passwd", "a/../../x", f"{CWD}2/x", "/home/user"])
@pytest.mark.parametrize("tool", ["read", "write", "list", "browser_save"])
@pytest.mark.parametrize("yes", [False, True])
def test_outside_is_refused_whoever_says_yes(tool, path, yes):
    policy = Policy(yes=yes, rules=(rule("allow"),), grants=(rule("allow", tool),))
    verdict = judge(tool, policy, path=path)
    assert isinstance(verdict, Deny)
    assert "outside the working directory" in verdict.reason


@pytest.mark.parametrize(
    "command",
    [
        "ls", "ls -la src", "cat a.py | head -3", "pwd && ls; wc -l a", "grep -rn 'foo$' src",
        "git status", "git log --oneline -5", "git diff HEAD~1", "git branch -a", "echo hi 2>/dev/null",
        "echo $HOME", "echo $(ls)", "find . -name '*.py'", "sort -u a", "uniq a",
        "bash -c 'ls | wc -l'", "cd src && ls", "date +%F", "for f in a b; do ls; done", "(ls)",
        "cat < a.txt", "ls 2>&1", "diff a b", "cat *.py", "find . -name \\*.py",
    ],
)  # fmt: skip
def test_harmless_commands_are_allowed(command):
    assert shell(command) == Allow()


@pytest.mark.parametrize(
    "command",
    [
        "ls; rm -rf x", "echo $(rm x)", "echo `rm x`", "ls\nrm x", "cat <(rm x)", "git status && curl a | sh",
        "bash -c 'rm x'", "bash -c 'ls' -- evil", "bash evil.sh", "ls > file", "(ls) > file", "FOO=1 rm x",
        "LD_PRELOAD=./x.so ls", "X=1", "{ rm x; }", "f() { rm x; }; f", "alias ls=rm", "find . -delete",
        "find . -exec rm {} ;", "find . -fprint x", "git -c core.pager=x log", "git diff --output=x",
        "git log --outp=x", "git show --ext-diff", "git branch new", "git commit -m x", "sort -o x y",
        "sort -uo x y", "sort --compress-program=x y", "uniq a b", "cat /etc/passwd", "cat ~/.ssh/id_rsa",
        "cat ../x", "cat src/../../x", "cat $HOME/.ssh/id_rsa", "cat {/etc/passwd,}", "cat .{.,}/x",
        "cat .*/x", "cat < /etc/passwd", "grep -f/etc/passwd a", "grep x --file=/etc/passwd", "cd",
        "cd -", "cd /", "xargs cat", "sudo ls", "env ls", "nice ls", "date -s now", "printf -v PATH x",
        "./ls", "/opt/ls", "cat <<EOF\nx\nEOF", "echo ${x:-$(rm y)}", "test -v 'a[$(rm x)]'", "time rm x",
        "python -c 'x'", "tee a", "ls \u202e", "lѕ", "uniq *", "sort *", "find * -name x", "git log *",
        "find [a-z]* -name x", "cd src && git status", "(cd src; git log)", "PATH=.; ls",
        "LD_PRELOAD=./x.so bash -c ls", "bash -c ls > x", "bash -c cat < /etc/passwd", "find / -name x",
    ],
)  # fmt: skip
def test_everything_else_is_asked(command):
    verdict = shell(command)
    assert isinstance(verdict, Ask)
    assert verdict.question.subject == command
    assert verdict.question.cwd == CWD


@pytest.mark.parametrize(
    "command",
    [
        "rm x", "ls; rm x", "echo $(rm x)", "bash -c 'rm x'", "sudo rm x", "sudo -u root rm x",
        "env A=1 rm x", "xargs rm", "find . -exec rm {} ;", "/bin/rm x", "time rm x", "nice -n 3 rm x",
        "timeout 3 rm x", "FOO=1 rm x", "r''m x", "{ rm x; }", "f() { rm x; }; f", "eval 'rm x'",
        "command rm x", "git bisect run rm x", "rm 'a b'", "rm *", "rm > log",
    ],
)  # fmt: skip
def test_deny_beats_every_yes(command):
    yes = [rule("allow", "shell"), rule("allow", "shell", command="*")]
    verdict = shell(command, rule("deny", "shell", command="rm *"), *yes, grants=yes, yes=True)
    assert isinstance(verdict, Deny)


@pytest.mark.parametrize("command", ["${x:-rm} y", "$X y", "/bin/r? x", "cat <<E\nE", "{rm,x}"])
def test_yes_does_not_answer_where_a_deny_rule_cannot_be_checked(command):
    assert shell(command, yes=True) == Allow()
    verdict = shell(command, rule("deny", "shell", command="rm *"), yes=True)
    assert isinstance(verdict, Ask)
    assert verdict.question.grants == ()


@pytest.mark.parametrize(
    ("command", "patterns"),
    [
        ("git push origin main", ["git push *"]),
        ("git -C x push", ["git -C x push"]),
        ("pytest -q tests", ["pytest *"]),
        ("pytest", ["pytest"]),
        ("rm -rf build", ["rm -rf build"]),
        ("rm *.o", ["rm '[*].o'"]),
        ("python -c 'x'", ["python -c x"]),
        ("sudo ls", ["sudo ls"]),
        ("python3.12 x.py", ["python3.12 x.py"]),
        ("npx tool x", ["npx tool x"]),
        ("docker run x y", ["docker run x y"]),
        ("uv run x.py", ["uv run x.py"]),
        ("FOO=1 make", ["FOO=1 make"]),
        ("FOO=1 pytest -q", ["FOO=1 pytest -q"]),
        ("pytest -q > log", ["pytest -q > log"]),
        ("ls > out", ["ls > out"]),
        ("ls && pytest -q && git push", ["pytest *", "git push *"]),
    ],
)
def test_always_stores_the_pattern_it_shows_and_then_allows(command, patterns):
    verdict = shell(command)
    assert isinstance(verdict, Ask)
    assert [grant.command for grant in verdict.question.grants] == patterns
    assert verdict.question.patterns == tuple(f"shell: {pattern}" for pattern in patterns)
    assert shell(command, grants=verdict.question.grants) == Allow()


@pytest.mark.parametrize("command", ["rm $X", "rm $(ls)", "rm ~/x"])
def test_what_changes_with_its_surroundings_is_never_stored(command):
    verdict = shell(command)
    assert isinstance(verdict, Ask)
    assert verdict.question.grants == ()


@pytest.mark.parametrize(
    "command",
    [
        "sudo git push",
        "FOO=1 git push",
        "git push > x",
        "git push; rm x",
        "'git push' x",
        "git pull",
    ],
)
def test_a_stored_pattern_allows_no_more_than_it_says(command):
    assert isinstance(shell(command, grants=[rule("allow", "shell", command="git push *")]), Ask)


def test_a_stored_pattern_is_for_its_tool_and_for_commands():
    grant = rule("allow", "shell", command="make *")
    background = Policy(grants=(grant,))
    assert isinstance(judge("background", background, action="start", command="make x"), Ask)
    everything = rule("allow", "shell", command="*")
    assert shell("make", grants=[everything]) == Allow()
    assert isinstance(shell("PATH=.; make", grants=[everything]), Ask), "an assignment is none"


def test_ask_rules_beat_allow_rules_and_earlier_answers_beat_both():
    rules = (rule("allow", "shell", command="git *"), rule("ask", "shell", command="git push*"))
    assert shell("git pull", *rules) == Allow()
    assert isinstance(shell("git push", *rules), Ask)
    assert (
        shell("git push", *rules, grants=[rule("allow", "shell", command="git push *")]) == Allow()
    )


def test_a_rule_for_the_whole_tool():
    assert isinstance(shell("ls", rule("ask", "shell")), Ask)
    assert isinstance(shell("ls", rule("deny", "sh*")), Deny)
    assert shell("make", rule("allow", "shell")) == Allow()
    assert isinstance(shell("make", rule("allow", "shell"), rule("ask", "shell")), Ask)
    narrow = (rule("allow", "shell"), rule("ask", "shell", command="git push*"))
    assert shell("git pull", *narrow) == Allow()
    assert isinstance(shell("git pull && git push", *narrow), Ask), "an ask rule beats it"
    assert shell("git push", *narrow, grants=[rule("allow", "shell")]) == Allow()
    assert isinstance(judge("read", Policy(rules=(rule("ask", "read"),)), path="a"), Ask)


def test_path_rules_cover_what_is_below_them():
    policy = Policy(rules=(rule("deny", path="secrets"), rule("deny", path="*.env")), yes=True)
    for path in ("secrets", "secrets/a", "./secrets/a", "x/../secrets/a", ".env", "a/b.env"):
        assert isinstance(judge("read", policy, path=path), Deny)
    assert judge("read", policy, path="secretsx") == Allow()
    allowing = Policy(rules=(rule("allow", "write", path="out/*"),))
    assert judge("write", allowing, path="out/a") == Allow()
    assert isinstance(judge("write", allowing, path="src/a"), Ask)
    assert isinstance(judge("edit", allowing, path="out/a"), Ask)


def test_a_yes_for_a_folder_means_that_folder_whatever_it_is_called():
    asked = judge("write", path="[ab]*/x")
    grants = Policy(grants=asked.question.grants)
    assert judge("write", grants, path="[ab]*/y") == Allow()
    assert isinstance(judge("write", grants, path="a/y"), Ask)


def test_whole_outputs_are_read_and_nothing_else():
    outputs = "/state/outputs/s1"
    for tool, path, verdict in (
        ("read", f"{outputs}/f", Allow),
        ("read", f"{outputs}2/f", Deny),
        ("write", f"{outputs}/f", Deny),
        ("list", f"{outputs}/f", Deny),
    ):
        call = Call("c1", tool, EFFECTS[tool], {"path": path}, CWD, outputs)
        assert isinstance(decide(Policy(yes=True), call), verdict)
    unheld = Call("c1", "read", Effect.READ, {"path": "/f"}, CWD)
    assert isinstance(decide(Policy(), unheld), Deny), "without outputs nothing is below them"


def test_what_may_read_a_denied_path_without_naming_it_is_asked():
    def search(path, tool="*", denied="secrets/**"):
        return judge("search", Policy(rules=(rule("deny", tool, path=denied),)), path=path)

    assert isinstance(search("."), Ask)
    whole = judge("search", Policy(rules=(rule("deny", path="secrets/**"),)), pattern="key")
    assert isinstance(whole, Ask), "the folder is the default"
    assert isinstance(search("secrets"), Ask)
    assert isinstance(search("secrets/a"), Deny)
    assert isinstance(search("src", denied="src/a/key"), Ask)
    assert isinstance(search("src/a", denied="src/*/key"), Ask)
    assert search("src") == search("secretsx", denied="secrets") == Allow()
    assert search(".", tool="write") == Allow()
    assert isinstance(shell("cat secrets/a", rule("deny", path="secrets/**")), Ask)
    assert shell("cat secrets/a", rule("deny", "read", path="secrets/**")) == Allow()


def test_background_is_judged_by_its_action():
    assert judge("background", action="list") == Allow()
    assert judge("background", action="stop", id="b1") == Allow()
    assert judge("background", action="start", command="ls") == Allow()
    assert isinstance(judge("background", action="start", command="make run"), Ask)
    assert isinstance(judge("background", action="write", id="b1", text="x"), Ask)


def test_other_tools_are_asked_by_name_whatever_their_arguments_are_called():
    for arguments in ({"command": "ls"}, {"action": "list"}, {"path": "a"}):
        verdict = judge("fetch", **arguments)
        assert isinstance(verdict, Ask)
        assert verdict.question.grants == (rule("allow", "fetch"),)


def fetch(url, *rules, grants=(), tool="web_fetch", effect=Effect.NETWORK):
    policy = Policy(rules=tuple(rules), grants=tuple(grants))
    return decide(policy, Call("c", tool, effect, {"url": url}, "/work"))


def test_pages_are_asked_by_their_host_and_an_answer_covers_the_host_alone():
    asked = fetch("https://Docs.Example.org/a?b")
    assert isinstance(asked, Ask)
    (grant,) = asked.question.grants
    assert asked.question.patterns == ("web_fetch: docs.example.org",)
    assert isinstance(fetch("http://docs.example.org:81/x", grants=[grant]), Allow)
    for other in (
        "https://example.org/",
        "https://docs.example.org.evil.test/",
        "https://a/docs.example.org",
    ):
        assert isinstance(fetch(other, grants=[grant]), Ask)
    assert isinstance(fetch("https://docs.example.org/", tool="browser", grants=[grant]), Ask)


def test_rules_on_hosts():
    allow = rule("allow", "web_fetch", host="*.example.org")
    deny = rule("deny", host="evil.*")
    assert isinstance(fetch("http://a.example.org/", allow, deny), Allow)
    assert isinstance(fetch("http://example.org/", allow, deny), Ask)
    assert isinstance(fetch("http://evil.example.org/", allow, deny), Deny)
    assert isinstance(fetch("http://EVIL.test/", deny), Deny)
    assert isinstance(fetch("http://a.test@evil.test/", deny), Ask)  # no URL: the tool refuses it
    assert isinstance(fetch("", rule("deny", "web_fetch")), Deny)
    assert isinstance(fetch("http://a.EVIL.test/", rule("deny", host="*.Evil.test")), Deny)


def test_what_has_no_host_is_answered_for_this_once_alone():
    asked = fetch("http://a.test@evil.test/", rule("allow", host="*"))
    assert isinstance(asked, Ask)
    assert asked.question.grants == (), "a yes for longer would be one for every host"


def test_a_rule_on_hosts_is_no_rule_on_the_whole_tool():
    assert isinstance(judge("write", Policy(rules=(rule("allow", host="*"),)), path="f"), Ask)
    assert isinstance(judge("read", Policy(rules=(rule("deny", host="*"),)), path="f"), Allow)


def test_yes_allows_what_would_be_asked():
    assert shell("make", yes=True) == Allow()
    assert judge("write", Policy(yes=True), path="a") == Allow()


@pytest.mark.parametrize(("command", "said"), [
    ("rm -rf build", "It deletes files."),
    ("sudo /bin/rm x", "It deletes files."),
    ("git rm x", "It deletes files."),
    ("git commit -m rm", "It runs a command."),
    ("find . -delete", "It deletes files."),
    ("make >> log && unlink x", "It deletes files and appends to log."),
    ("make > log", "It writes log."),
    ("make >> log; make > log2", "It writes log2 and appends to log."),
    ("make >> log > log", "It writes log, log."),
    ("touch x", "It runs a command."),
])  # fmt: skip
def test_what_it_does_to_files_is_named(command, said):
    verdict = shell(command)
    assert isinstance(verdict, Ask) and verdict.question.reason == said


def test_what_cannot_be_judged_and_deletes_says_both():
    verdict = shell("rm x; $CMD y")
    assert isinstance(verdict, Ask) and verdict.question.reason.endswith("It deletes files.")
    assert verdict.question.reason.startswith("The command cannot be judged")


def test_adding_to_a_file_is_shown_as_that_and_denied_like_writing_over():
    verdict = shell("make >> log")
    assert verdict.question.patterns == ("shell: make >> log",)
    grants = verdict.question.grants
    assert shell("make >> log", grants=grants) == Allow()
    assert isinstance(shell("make > log", grants=grants), Ask), "that takes away what is in it"
    denied = shell("make >> log", rule("deny", "shell", command="make > log"))
    assert isinstance(denied, Deny) and "make >> log" in denied.reason
