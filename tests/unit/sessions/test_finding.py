"""Searching sessions."""

from types import SimpleNamespace

from tenure.sessions.finding import FOUND_MAX, find_others, find_sessions
from tenure.store.base import Sieve


class Searched:
    """A store that remembers what was wanted."""

    def __init__(self):
        self.wanted = []

    async def search(self, terms, *, only, limit):
        self.wanted.append((only, limit))
        return []


async def test_a_search_is_bounded_and_an_agent_does_not_find_itself():
    store = Searched()
    for limit in (-5, 0, 7, 10**9):
        await find_sessions(store, "word", limit, only=Sieve())
    assert [limit for _, limit in store.wanted] == [1, 1, 7, FOUND_MAX]
    session = SimpleNamespace(id="mine", ports=SimpleNamespace(store=store))
    await find_others(session, "word", 5)
    assert store.wanted[-1] == (Sieve(apart="mine"), 5)
