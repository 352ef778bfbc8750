"""What a session is called."""

from types import SimpleNamespace

from tenure.sessions.facts import PREVIEW_CHARS, first_words, system_of, unname
from tenure.sessions.planning import ABOUT
from tenure.sessions.turns import LiveTurn
from tenure.tools.memory import MEMORY_TOOL


def named(prompt, **facts):
    session = SimpleNamespace(**{"notice": "", "preview": "", "title": "", **facts})
    turn = LiveTurn("t", 1, prompt, 0.0)
    return session, turn, first_words(session, turn, 5.0)


def test_an_agent_is_told_what_counts_for_it():
    def told(*tools, planning=False):
        memories = SimpleNamespace(text=" Ada likes tea.")
        work = SimpleNamespace(planning=planning)
        session = SimpleNamespace(ports=SimpleNamespace(memories=memories), work=work)
        prompt = SimpleNamespace(text="Be brief.")
        return system_of(session, SimpleNamespace(prompt=prompt, tools=tools))

    assert told() == "Be brief.", "without the tool there is no memory"
    assert told(MEMORY_TOOL) == "Be brief. Ada likes tea."
    assert told(planning=True) == "Be brief." + ABOUT


def test_the_first_prompt_names_what_has_no_name():
    _, _, changes = named("Fix it\nplease")
    assert changes == {"updated_at": 5.0, "preview": "Fix it please", "title": "Fix it"}
    session, _, changes = named("Fix it", title="Mine", preview="before")
    assert changes == {"updated_at": 5.0}
    assert (session.title, session.preview) == ("Mine", "before")
    assert len(named("x" * 1_000)[0].preview) == PREVIEW_CHARS


def test_a_prompt_that_was_not_stored_takes_its_own_name_back():
    session, turn, _ = named("Fix it")
    session.title = "Mine"
    unname(session, turn)
    assert (session.title, session.preview) == ("Mine", ""), "what a person wrote meanwhile stays"
