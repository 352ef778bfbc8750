"""Whether a call may run: a pure decision.

Order, first hit wins: a deny rule; an earlier answer ("session", "always"); an ask rule; an allow
rule; the defaults. Defaults: what reads is allowed, what writes or runs is asked, a short list of
harmless commands (`harmless`) is allowed. A path outside the working directory is refused.

A shell command is judged part by part: one denied part denies it, and it runs unasked only if every
part may. What cannot be parsed is asked; and if a deny rule speaks of commands, then even `yes`
does not answer for it, because nobody can tell whether that rule applies.

In a sandbox that confines them (`Policy.boxed`), commands and changes of files run unasked, unless
a rule says ask, or the call wants to leave it: it asks for the network. A deny beats that too.

In plan mode (`Policy.planning`) whatever may change something is denied before any of that: only
what reads, and commands that are all on the list of harmless ones, are judged at all.

A path rule judges the path that a file tool is given, and the one that it leads to through links
(`beyond`). What may read a denied path without naming it (a search in a folder above, a command
that would otherwise run unasked) is asked.
"""

from __future__ import annotations

import fnmatch
import posixpath
import re
import shlex
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from tenure.agent.commands import CARRIERS, Parsed, Part, parse_command
from tenure.agent.harmless import is_harmless
from tenure.agent.ports import Policy, Question
from tenure.config import ApprovalRule
from tenure.net.urls import host_of
from tenure.sandbox.base import Ruling, unruled
from tenure.tools.base import Effect


class Allow(msgspec.Struct, frozen=True):
    """Run it."""


class Deny(msgspec.Struct, frozen=True):
    """Refuse it; `reason` is a sentence for the model."""

    reason: str


class Ask(msgspec.Struct, frozen=True):
    """Somebody must say yes."""

    question: Question


Verdict = Allow | Deny | Ask


class Call(msgspec.Struct, frozen=True):
    """What is to be judged."""

    id: str
    tool: str
    effect: Effect
    arguments: Mapping[str, Any]
    """As the tool will read them, never as another parser might."""
    cwd: str
    outputs: str = ""
    """The folder with the session's whole outputs, which `read` reaches besides; empty: none."""


_COMMAND_TOOLS = frozenset({"shell", "background", "terminal"})
"""Tools whose ``command`` is a shell command here."""
_PATH_TOOLS = frozenset({"read", "write", "edit", "list", "glob", "search", "browser_save"})
"""Tools whose ``path`` is a path below the working directory."""
_CONFINED = _COMMAND_TOOLS | _PATH_TOOLS
"""Tools whose effects a sandbox confines."""
_URL_TOOLS = frozenset({"web_fetch", "browser"})
"""Tools whose ``url`` leads to a host of the network."""
_LOOKING = {
    "background": frozenset({"list", "read", "stop"}),
    "terminal": frozenset({"list", "read", "resize", "signal", "close"}),
}
"""Actions without writing to or starting a process."""
_ONLY_LOOKING = {
    "background": frozenset({"list", "read"}),
    "terminal": frozenset({"list", "read"}),
    "browser": frozenset({"navigate", "snapshot", "scroll", "back", "tabs", "console", "network"}),
}
"""Actions that change nothing, neither here nor behind a page."""
_PLANNING = "Plan mode is on: nothing may be changed until the person approves a plan."
_SUBCOMMANDS = frozenset(
    {
        "git", "npm", "pnpm", "yarn", "cargo", "go", "docker", "podman", "kubectl", "pip", "pip3",
        "uv", "poetry", "make", "just", "apt", "brew", "gh",
    }
)  # fmt: skip
"""Commands whose second word says what they do; a stored pattern keeps it."""
_RUNNERS = frozenset({"run", "exec", "x", "dlx", "eval"})
"""Second words after which anything may be run: stored word for word."""
_EXACT = CARRIERS - {"git"} | {
    "rm", "dd", "mkfs", "chmod", "chown", "python", "python3", "node", "perl", "ruby", "php", "awk",
    "sed", "ssh", "source", ".", "alias", "npx", "bunx", "uvx", "pipx", "bun", "deno", "lua",
    "tclsh", "rscript", "java", "gdb",
}  # fmt: skip
"""Commands for which a pattern would be too wide a yes: stored word for word."""


def reads_command(call: Call) -> bool:
    """Whether `decide` will parse a shell command, so that the parser should be imported."""
    command = call.arguments.get("command")
    return call.tool in _COMMAND_TOOLS and isinstance(command, str) and bool(command)


def decide(policy: Policy, call: Call) -> Verdict:  # noqa: PLR0911 - one for each kind of tool
    """Judge one call. Pure; slow for shell commands (see `parse_command`)."""
    if any(_covers(rule, call) for rule in policy.rules if rule.decision == "deny"):
        return Deny(f"A rule denies {call.tool}.")
    if policy.planning and _may_change(call):
        return Deny(_PLANNING)
    if call.arguments.get("action") in _LOOKING.get(call.tool, ()):
        return _settle(policy, call, Effect.READ, subject=_shown(call.arguments))
    if reads_command(call):
        return _decide_command(policy, call, str(call.arguments["command"]))
    if call.tool in _URL_TOOLS:
        return _decide_host(policy, call, str(call.arguments.get("url", "")))
    if call.tool in _PATH_TOOLS:
        return _decide_path(policy, call, str(call.arguments.get("path", ".")))
    if call.tool == "terminal" and call.arguments.get("text") and _denies_commands(policy):
        reason = "A rule denies commands, and nobody can tell whether this is one of them."
        return Ask(_question(call, call.effect, _shown(call.arguments), reason))
    return _settle(policy, call, call.effect, subject=_shown(call.arguments))


def _may_change(call: Call) -> bool:
    """Whether a call may change something; commands of `shell` are looked at later."""
    if call.tool in _ONLY_LOOKING:
        return call.arguments.get("action") not in _ONLY_LOOKING[call.tool]
    if call.tool == "shell" and reads_command(call):
        return False
    return call.effect not in {Effect.READ, Effect.NETWORK}


def _denies_commands(policy: Policy) -> bool:
    return any(rule.decision == "deny" and rule.command for rule in policy.rules)


def _boxed(policy: Policy, call: Call) -> bool:
    """Whether all that the call can do stays in a sandbox."""
    return policy.boxed and call.tool in _CONFINED and not call.arguments.get("network")


def _covers(rule: ApprovalRule, call: Call) -> bool:
    """Whether a rule speaks of the whole tool."""
    narrowed = rule.command or rule.path or rule.host
    return not narrowed and fnmatch.fnmatchcase(call.tool, rule.tool)


# --- paths --------------------------------------------------------------------------------------


def _decide_path(policy: Policy, call: Call, path: str) -> Verdict:
    if call.tool == "read" and call.outputs and path.startswith(f"{call.outputs}/"):
        return _settle(policy, call, Effect.READ, subject=path)
    inside = _below(call.cwd, path)
    if inside is None:
        return Deny(f"{path[:200]!r} is outside the working directory {call.cwd}; stay below it.")
    matching = [
        rule
        for rule in (*policy.rules, *policy.grants)
        if rule.path and fnmatch.fnmatchcase(call.tool, rule.tool) and _path_matches(rule, inside)
    ]
    if any(rule.decision == "deny" for rule in matching):
        return Deny(f"A rule denies {call.tool} on {inside}.")
    if call.tool == "search" and any(_may_lie_below(r, inside) for r in _denied(policy, call.tool)):
        matching.append(ApprovalRule(decision="ask", tool=call.tool))
    top = inside.split("/", 1)[0]
    pattern = f"{_escape(top)}/*" if "/" in inside else _escape(inside)
    grant = ApprovalRule(decision="allow", tool=call.tool, path=pattern)
    return _settle(policy, call, call.effect, subject=inside, matching=matching, grants=(grant,))


def beyond(policy: Policy, call: Call) -> Callable[[str], Ruling]:
    """What rules say of a path to which a call that may run has led, but which it did not name.

    A yes is for the path that was named: what a link leads to is asked about by its own name.
    """
    named = _below(call.cwd, str(call.arguments.get("path", ".")))

    def judge(found: str) -> Ruling:
        if found == named:
            return ""
        arguments = {**call.arguments, "path": found}
        verdict = decide(policy, msgspec.structs.replace(call, arguments=arguments))
        if isinstance(verdict, Ask):
            # It finds a name by itself where none was given, and overwrites nothing.
            return "" if call.tool == "browser_save" else "ask"
        return "deny" if isinstance(verdict, Deny) else ""

    return judge if call.tool in _PATH_TOOLS else unruled


def _below(cwd: str, path: str) -> str | None:
    """`path` relative to `cwd`, or None where it leads out of it by its spelling."""
    full = posixpath.normpath(posixpath.join(cwd, path))
    root = posixpath.normpath(cwd)
    if full == root:
        return "."
    prefix = root if root.endswith("/") else f"{root}/"
    return full[len(prefix) :] if full.startswith(prefix) else None


def _denied(policy: Policy, tool: str) -> list[ApprovalRule]:
    """Rules that deny this tool some path."""
    return [
        rule
        for rule in policy.rules
        if rule.decision == "deny" and rule.path and fnmatch.fnmatchcase(tool, rule.tool)
    ]


def _may_lie_below(rule: ApprovalRule, inside: str) -> bool:
    """Whether a path that the rule means may be in the folder `inside`."""
    fixed = re.split(r"[*?\[]", rule.path, maxsplit=1)[0]
    below = inside == "." or fixed.startswith(f"{inside}/")
    return below or (fixed != rule.path and f"{inside}/".startswith(fixed))


def _path_matches(rule: ApprovalRule, inside: str) -> bool:
    """A glob over the path or over one of its parents, so that ``secrets`` covers what is in it."""
    pieces = inside.split("/")
    return any(
        fnmatch.fnmatchcase("/".join(pieces[:end]), rule.path) for end in range(1, len(pieces) + 1)
    )


# --- hosts --------------------------------------------------------------------------------------


def _decide_host(policy: Policy, call: Call, url: str) -> Verdict:
    """By the host that the URL leads to, as it will be dialled.

    Without a URL it is about a page that was opened already, on a host that was allowed.
    """
    if not url:
        return _settle(policy, call, Effect.READ, subject=_shown(call.arguments))
    host = host_of(url)
    matching = [
        rule
        for rule in (*policy.rules, *policy.grants)
        if rule.host and fnmatch.fnmatchcase(call.tool, rule.tool) and _host_matches(rule, host)
    ]
    if any(rule.decision == "deny" for rule in matching):
        return Deny(f"A rule denies {call.tool} on {host}.")
    # Where no host can be told, an answer holds for this once: it could not say for what else.
    grants = (ApprovalRule(decision="allow", tool=call.tool, host=host),) if host else ()
    return _settle(policy, call, call.effect, subject=url, matching=matching, grants=grants)


def _host_matches(rule: ApprovalRule, host: str) -> bool:
    return bool(host) and fnmatch.fnmatchcase(host, rule.host.lower())


# --- commands -----------------------------------------------------------------------------------


def _decide_command(policy: Policy, call: Call, command: str) -> Verdict:
    parsed = parse_command(command)
    rules = [rule for rule in policy.rules if _speaks_of_commands(rule, call.tool)]
    denying = [rule for rule in rules if rule.decision == "deny"]
    for part in parsed.parts:
        if any(_hits(rule.command, part) for rule in denying):
            return Deny(f"A rule denies the command {part.text[:200]!r}.")
    if policy.planning and (call.arguments.get("network") or not _only_looks(parsed)):
        return Deny(
            f"{_PLANNING} Commands that only look, like ls, cat, grep or git diff, may run."
        )
    grants = [rule for rule in policy.grants if _speaks_of_commands(rule, call.tool)]
    if parsed.opaque:
        reason = f"The command cannot be judged: it is or contains {parsed.opaque}."
        if any(part.deletes for part in parsed.parts):
            reason += " It deletes files."
        question = _question(call, Effect.EXECUTE, command, reason)
        may = policy.yes or _boxed(policy, call)
        return Allow() if may and not denying else Ask(question)
    whole = {rule.decision for rule in policy.rules if _covers(rule, call)}
    boxed = _boxed(policy, call) and not _denied(policy, call.tool)
    free = boxed or "allow" in whole
    unasked = parsed.parts if free else _harmless_in(policy, call, parsed.parts)
    asked = [
        part
        for part in parsed.parts
        if not any(_allows(rule.command, part) for rule in grants)
        and ("ask" in whole or not _may(part, rules, unasked=part in unasked))
    ]
    if not asked or policy.yes or any(_covers(rule, call) for rule in policy.grants):
        return Allow()
    return Ask(_command_question(call, command, asked))


def _speaks_of_commands(rule: ApprovalRule, tool: str) -> bool:
    return bool(rule.command) and fnmatch.fnmatchcase(tool, rule.tool)


def _harmless_in(policy: Policy, call: Call, parts: Iterable[Part]) -> list[Part]:
    """The parts that run unasked by default.

    None where a rule denies paths, since nobody knows what they read, nor where the network is
    asked for; no git where the folder changes, since another repository's configuration may name
    programs.
    """
    if _denied(policy, call.tool) or call.arguments.get("network"):
        return []
    return _harmless_of(parts)


def _harmless_of(parts: Iterable[Part]) -> list[Part]:
    moves = any(part.name == "cd" for part in parts)
    return [part for part in parts if is_harmless(part) and not (moves and part.name == "git")]


def _only_looks(parsed: Parsed) -> bool:
    """Whether a whole command is of the harmless kind, or only runs such by name."""
    harmless = _harmless_of(parsed.parts)
    return not parsed.opaque and all(part in harmless or _passes_on(part) for part in parsed.parts)


def _may(part: Part, rules: Iterable[ApprovalRule], *, unasked: bool) -> bool:
    """Whether this part runs unasked: by default (`unasked`) or by a rule, unless one says ask."""
    if any(rule.decision == "ask" and _hits(rule.command, part) for rule in rules):
        return False
    allowed = any(rule.decision == "allow" and _allows(rule.command, part) for rule in rules)
    return allowed or unasked or _passes_on(part)


def _passes_on(part: Part) -> bool:
    """Whether this part only runs another that is judged by itself: exactly ``bash -c TEXT``."""
    plain = not (part.assigns or part.writes or part.reads or part.dynamic)
    return plain and part.words[:2] in {("bash", "-c"), ("sh", "-c")} and len(part.words) == 3


def _hits(pattern: str, part: Part) -> bool:
    """Whether a deny or ask pattern speaks of this part, generously."""
    tails = range(len(part.words)) if part.name in CARRIERS else range(min(1, len(part.words)))
    for start in tails:
        words = part.words[start:]
        named = (posixpath.basename(words[0]), *words[1:])
        texts = {" ".join(words), " ".join(named), shlex.join(words), shlex.join(named)}
        if any(_glob(pattern, text) for text in texts):
            return True
    return _glob(pattern, part.text) or _glob(pattern, part.overwriting)


def _allows(pattern: str, part: Part) -> bool:
    """Whether an allow pattern speaks of this part, strictly: all that it does must be named."""
    if part.writes and ">" not in pattern:
        return False
    return bool(part.words) and _glob(pattern, part.text)


def _glob(pattern: str, text: str) -> bool:
    """A case-sensitive glob in which a final `` *`` also matches nothing."""
    if pattern.endswith(" *") and fnmatch.fnmatchcase(text, pattern[:-2]):
        return True
    return fnmatch.fnmatchcase(text, pattern)


def _command_question(call: Call, command: str, asked: list[Part]) -> Question:
    patterns = tuple(dict.fromkeys(_pattern(part) for part in asked))
    storable = bool(asked) and all(part.words and not part.dynamic for part in asked)
    grants = tuple(
        ApprovalRule(decision="allow", tool=call.tool, command=pattern) for pattern in patterns
    )
    if call.arguments.get("network"):
        # A grant would hold for commands without a box, too, which is more than was asked here.
        return _question(call, Effect.EXECUTE, command, "It asks for the network.")
    return _question(call, Effect.EXECUTE, command, _effects(asked), grants if storable else ())


def _effects(parts: list[Part]) -> str:
    """What commands do to files, as far as their words say so."""
    over = [t for part in parts for t in part.writes if t not in part.appends]
    added = [t for part in parts for t in part.appends]
    done = ["deletes files"] if any(part.deletes for part in parts) else []
    done += [f"writes {', '.join(over)}"] if over else []
    done += [f"appends to {', '.join(added)}"] if added else []
    return f"It {' and '.join(done) or 'runs a command'}."


def _pattern(part: Part) -> str:
    """The glob that "always" would store for a part."""
    name = part.name.lower().rstrip("0123456789.-")  # python3.12, php8.3
    if part.assigns or part.writes or not {part.name, name}.isdisjoint(_EXACT):
        return _escape(part.text)
    if len(part.words) == 1 or not _RUNNERS.isdisjoint(part.words[1:2]):
        return _escape(part.text)
    keep = 1
    if part.name in _SUBCOMMANDS and re.fullmatch(r"[a-z][a-z0-9-]*", part.words[1]):
        keep = 2
    elif part.name in _SUBCOMMANDS:
        return _escape(part.text)
    return f"{_escape(shlex.join(part.words[:keep]))} *"


def _escape(text: str) -> str:
    return re.sub(r"([*?\[])", r"[\1]", text)


# --- the rest -----------------------------------------------------------------------------------


_REASONS = {
    Effect.READ: "A rule wants it asked.",
    Effect.WRITE: "It changes files.",
    Effect.NETWORK: "It reaches out to the network.",
}


def _settle(
    policy: Policy,
    call: Call,
    effect: Effect,
    *,
    subject: str,
    matching: Iterable[ApprovalRule] = (),
    grants: tuple[ApprovalRule, ...] | None = None,
) -> Verdict:
    """Answer, ask rule, allow rule, default. Without `grants` an answer is for the whole tool."""
    speaking = [
        *matching,
        *(rule for rule in (*policy.rules, *policy.grants) if _covers(rule, call)),
    ]
    if any(rule in policy.grants for rule in speaking):
        return Allow()
    asked = any(rule.decision == "ask" for rule in speaking)
    allowed = any(rule.decision == "allow" for rule in speaking) or effect is Effect.READ
    allowed = allowed or _boxed(policy, call)
    if policy.yes or (allowed and not asked):
        return Allow()
    reason = _REASONS.get(effect, "It acts outside the conversation.")
    if grants is None:
        grants = (ApprovalRule(decision="allow", tool=call.tool),)
    return Ask(_question(call, effect, subject, reason, grants))


def _question(
    call: Call, effect: Effect, subject: str, reason: str, grants: tuple[ApprovalRule, ...] = ()
) -> Question:
    patterns = tuple(
        f"{grant.tool}: {grant.command or grant.path or grant.host or 'everything'}"
        for grant in grants
    )
    return Question(
        call.id, call.tool, effect, subject, call.cwd, reason, grants=grants, patterns=patterns
    )


def _shown(arguments: Mapping[str, Any]) -> str:
    return msgspec.json.encode(dict(arguments)).decode()
