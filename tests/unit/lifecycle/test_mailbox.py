"""Mailboxes: nothing that was posted is lost, nothing is taken after the claim."""

from __future__ import annotations

import asyncio

import pytest

from tenure.errors import LifecycleError, Overloaded, ScopeClosed
from tenure.lifecycle.mailbox import Mailbox
from tenure.testing.clock import settle


async def test_in_order_and_waiting(root):
    mailbox: Mailbox[int] = Mailbox()
    taken: list[int] = []

    async def consume() -> None:
        while True:
            taken.append(await mailbox.get())

    root.spawn(consume(), name="consume")
    await settle()
    for number in range(3):
        mailbox.post(number)
    await settle()
    mailbox.post(3)
    await settle()
    assert taken == [0, 1, 2, 3]


async def test_cancelling_get_loses_nothing(root):
    mailbox: Mailbox[str] = Mailbox()
    waiting = asyncio.get_running_loop().create_task(mailbox.get())
    await settle()
    mailbox.post("kept")  # wakes the waiter, who is cancelled before it runs
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert await mailbox.get() == "kept"


async def test_after_a_cancelled_consumer_comes_the_next():
    mailbox: Mailbox[str] = Mailbox()
    waiting = asyncio.get_running_loop().create_task(mailbox.get())
    await settle()
    waiting.cancel()
    await settle()
    following = asyncio.get_running_loop().create_task(mailbox.get())
    await settle()
    mailbox.post("a")
    assert await following == "a"


async def test_close_returns_the_rest_refuses_and_wakes(root):
    mailbox: Mailbox[str] = Mailbox()
    mailbox.post("a")
    mailbox.post("b")
    assert await mailbox.get() == "a"
    assert mailbox.close() == ["b"]
    assert mailbox.close() == []
    with pytest.raises(ScopeClosed):
        mailbox.post("c")
    coming = asyncio.get_running_loop().create_task(mailbox.get())
    await settle()
    assert coming.done()
    with pytest.raises(ScopeClosed):
        await coming


async def test_close_wakes_a_parked_consumer():
    mailbox: Mailbox[str] = Mailbox()
    waiting = asyncio.get_running_loop().create_task(mailbox.get())
    await settle()
    mailbox.close()
    await settle()
    assert waiting.done()
    with pytest.raises(ScopeClosed):
        await waiting


async def test_posts_are_refused_from_the_instant_of_the_claim(root):
    scope = root.child("session")
    mailbox: Mailbox[str] = Mailbox(scope)
    mailbox.post("before")
    scope.claim("closing")
    with pytest.raises(ScopeClosed):
        mailbox.post("after")
    assert mailbox.closed
    assert await mailbox.get() == "before"
    assert mailbox.get_nowait() is None


async def test_bounded():
    mailbox: Mailbox[int] = Mailbox(limit=2)
    mailbox.post(1)
    mailbox.post(2)
    with pytest.raises(Overloaded):
        mailbox.post(3)
    assert len(mailbox) == 2
    assert mailbox.get_nowait() == 1


async def test_one_consumer():
    mailbox: Mailbox[int] = Mailbox()
    first = asyncio.get_running_loop().create_task(mailbox.get())
    await settle()
    second = asyncio.get_running_loop().create_task(mailbox.get())
    await settle()
    assert second.done()
    with pytest.raises(LifecycleError):
        await second
    mailbox.post(1)
    assert await first == 1
