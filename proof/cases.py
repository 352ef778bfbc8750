"""``python -m proof cases``: what holds each known way in which gateways break.

It writes docs/cases.md from the tests, the scenarios and the table of guards; a test compares.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from proof.mutants.table import ROOT, Mutant, read_all

PAGE = ROOT / "docs" / "cases.md"
TESTS = ROOT / "tests"

TITLES = (
    "A close meets a build", "An end frees every kind of thing", "Helpers for one call are closed",
    "Replacing an agent frees all of the old one", "The end hook runs once for each end",
    "A shared handle outlives one of its users", "A viewer ends nothing that it does not own",
    "Closing twice, and use after a close", "A slow step delays nobody else",
    "What was stopped is not started again", "A disconnect acts on what is true now",
    "Two resumes make one runtime", "What a crash left is taken up once",
    "An attach meets an unload", "A rebuilt runtime equals the old one",
    "Losing the client stops nothing", "Stored ids stay good", "Reaping is decided again and again",
    "No row stays open after a crash", "Sleep does not use up the grace",
    "A place ends with its holder", "A living socket keeps only its own session",
    "A row and its route end together", "Looking is no use", "Every exit deregisters",
    "One turn at a time", "One process writes a conversation", "Queued means stored",
    "A prompt at the end of a turn is not lost", "A stop flag ends with its turn",
    "The lane is free after an abort", "Stop and delete reach everything",
    "Every turn tells its end", "A prompt is stored before it is acknowledged",
    "Queued prompts survive", "A cut is marked before anything waits",
    "One budget for a shutdown", "Only a mark starts work again", "Poison is quarantined",
    "A reply that leaves is recorded", "Locks of the dead bind nobody",
    "Configuration changes between turns", "What may have happened is not repeated",
    "No event is lost in a gap", "A gap is told", "The cursor moves",
    "Subscribers are independent", "A stalled client delays only itself", "Buffers are bounded",
    "A burst drops nobody", "Work of agents leaves the loop to others",
    "Identity is an argument", "A completion goes to its owner", "A completion is delivered once",
    "Writes stay in their profile", "A reply goes where its prompt came from",
    "An answer resolves its own question", "A pending question is shown again",
    "Only the entitled decide, and success follows the commit",
    "No mode goes round the approvals", "A stop ends the whole tree of processes",
    "A kill reaches its own and no others", "One tool server in a place",
    "Tool servers are shared", "No old generation beside the new",
    "Each resource is closed where it was opened", "Ignoring the polite stop is no escape",
    "Exited children are reaped", "A child has no hold on our input", "Output is bounded",
    "A bad tool server hurts its call only", "A live browser is never lost",
    "Strays are swept, again and again", "Containers and rows agree",
    "What is kept is looked at again", "Sub-agents end with their owner",
    "A finished report survives its owner", "An occurrence fires once",
    "A long job delays no other", "An occurrence survives a crash",
    "Missed and late runs have a rule", "Database handles do not leak",
    "One writer for each database", "The library alone touches the database file",
    "A socket is closed by its own thread", "Summaries hold no lock and come to an end",
    "Files have owners and limits", "Memory is budgeted in bytes",
    "Registrations do not pile up", "Half-open sockets are closed",
    "A message that comes again runs once", "A retry starts no second run",
    "A stuck poller is noticed", "One authorisation for every transport",
    "Tokens do not leak", "Secrets are not stored", "Ids and names are no paths",
    "Nobody reads another's data", "One renewal of a login at a time",
    "A pid alone is nobody",
)  # fmt: skip
"""The cases, from 1."""

AWAITED = {
    7: "messaging channels", 23: "messaging channels", 40: "messaging channels",
    56: "messaging channels", 91: "messaging channels", 93: "messaging channels",
    78: "scheduled jobs", 79: "scheduled jobs", 80: "scheduled jobs", 81: "scheduled jobs",
    98: "several users of one gateway",
}  # fmt: skip
"""Cases whose subject is not built, and the part they wait for."""

ELSEWHERE = {
    10: ("tests/unit/lifecycle/test_supervisor.py",),
    59: ("tests/cases/test_case_57_an_answer_resolves_its_own_question.py",),
}
"""Tests of a case that do not bear its number."""

EXPLORED = {
    1: ("close-against-build", "close-against-build-in-thread", "a-late-product"),
    2: ("a-release-that-fails", "close-of-three-levels"),
    4: ("close-against-steps",),
    6: ("two-borrowers-of-one-thing", "a-borrower-after-the-last"),
    8: ("two-closers",),
    9: ("a-waiter-without-patience",),
    10: ("stop-against-restart",),
    21: ("refused-things-are-closed",),
    66: ("move-between-closing-scopes", "a-builder-who-leaves"),
    75: ("discard-against-borrow",),
}
"""Scenarios of the explorer that race what the case is about."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the subcommand takes."""
    parser.add_argument("--check", action="store_true", help="write nothing; 1 if it has changed")


def main(args: argparse.Namespace) -> int:
    """Write docs/cases.md."""
    text = page()
    if args.check:
        return int(PAGE.read_text() != text)
    PAGE.write_text(text)
    return 0


def page() -> str:
    """docs/cases.md as tests, scenarios and guards are now."""
    guards = read_all()
    lines = [
        "# Ways in which gateways break, and what holds each here",
        "",
        "Generated by `python -m proof cases` from the tests, the explorer's scenarios and",
        "`proof/guards/`. Each guard that is named is removed by `python -m proof mutants NUMBER`,",
        "and its test must fail. What pairs of operations on one session do to each other",
        "(`python -m proof explore --list`) belongs to many of these, and is not named one by one.",
        "",
        f"{len(TITLES)} cases; {len(AWAITED)} await a part that is not built.",
        "",
    ]
    for number, title in enumerate(TITLES, 1):
        lines += [f"## {number}. {title}", "", *_held(number, guards), ""]
    return "\n".join(lines)


def _held(number: int, guards: list[Mutant]) -> Iterator[str]:
    if number in AWAITED:
        yield f"Awaits {AWAITED[number]}."
        return
    mine = [guard for guard in guards if guard.case == number]
    named = {
        f"tests/cases/{path.name}" for path in (TESTS / "cases").glob(f"test_case_{number:02}_*.py")
    }
    killers = {killer.partition("::")[0] for guard in mine for killer in guard.killers}
    for file in sorted({*named, *killers, *ELSEWHERE.get(number, ())}):
        yield f"- `{file}`"
    if number in EXPLORED:
        yield "- scenarios " + ", ".join(f"`{name}`" for name in EXPLORED[number])
    for guard in mine:
        yield f"- guard in `{guard.file}`: without it, {guard.about}"
