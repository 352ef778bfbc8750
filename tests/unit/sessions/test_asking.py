"""What a turn asks with: everything that is decided already, and where its commands run."""

from types import SimpleNamespace

from tenure.agent.ports import Policy, Question
from tenure.config import ApprovalRule
from tenure.sessions.asking import SUDO, TurnAsker, TurnPerson
from tenure.tools.base import Effect

MINE = ApprovalRule("ask", tool="shell")
THEIRS = ApprovalRule("allow", tool="server__*")


class Asked:
    """A session's questions, which remembers them."""

    def __init__(self):
        self.said = []

    def policy(self):
        return Policy(rules=(MINE,), yes=True)

    async def ask(self, question, turn_id):
        self.said.append((question.place, turn_id))

    async def ask_for(self, kind, turn_id, facts):
        self.said.append((kind, turn_id))


def asker(*, confined, planning, servers=None):
    about = SimpleNamespace(confinement=SimpleNamespace(about="in a box"))
    work = SimpleNamespace(confined=confined, planning=planning, servers=servers, sandbox=about)
    return TurnAsker(Asked(), "t1", work)


def test_box_mode_and_servers_count_beside_what_the_session_has_decided():
    for confined in (False, True):
        for planning in (False, True):
            policy = asker(confined=confined, planning=planning).policy()
            assert policy == Policy(rules=(MINE,), yes=True, boxed=confined, planning=planning)
    servers = SimpleNamespace(rules=lambda: (THEIRS,))
    assert asker(confined=False, planning=False, servers=servers).policy().rules == (MINE, THEIRS)


async def test_a_question_says_where_it_runs_and_for_whom():
    asking = asker(confined=True, planning=False)
    await asking.ask(Question("c1", "shell", Effect.EXECUTE, "make", "/w", "It runs."))
    assert asking._questions.said == [("in a box", "t1")]
    person = TurnPerson(asked := Asked(), "t2")
    await person.secret(SUDO, "to install")
    await person.secret("TOKEN", "to log in")
    assert asked.said == [("sudo", "t2"), ("secret", "t2")]
