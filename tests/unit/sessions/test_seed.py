"""A history that a client brings along."""

import pytest

from tenure.conversation import Message
from tenure.errors import BadValue
from tenure.sessions.seed import SEED_MAX, seed_items


def test_so_many_and_of_two_roles():
    said = [{"role": "user", "content": "one"}, {"role": "assistant", "text": "two"}]
    items = seed_items(said)
    assert [item.message for item in items] == [Message("user", "one"), Message("assistant", "two")]
    for wrong in ({"role": "system", "text": "x"}, {"role": "tool", "text": "x"}, {"role": "user"}):
        with pytest.raises(BadValue, match=r"messages\[2\] needs a role"):
            seed_items([*said, wrong])
    with pytest.raises(BadValue, match="2000 messages at the most"):
        seed_items(said * (SEED_MAX // 2 + 1))
    assert len(seed_items(said * (SEED_MAX // 2))) == SEED_MAX
