"""Which renderers are ended."""

import os
import signal
import subprocess

from tenure.browser import memory
from tenure.browser.memory import Held, held_by, too_large
from tenure.processes.procfs import read_stat

ME = read_stat(os.getpid())


def held(*sizes, others=0):
    return [*(Held(ME, size, True) for size in sizes), Held(ME, others, False)]


def sizes(found):
    return [one.rss for one in found]


def test_each_over_its_own_limit_else_the_largest_if_all_is_too_much():
    assert too_large(held(5, 9), 10, 100) == []
    assert sizes(too_large(held(5, 11, 12), 10, 100)) == [11, 12]
    assert sizes(too_large(held(5, 9, 7, others=90), 10, 100)) == [9]
    assert too_large(held(others=999), 10, 100) == []


def test_what_this_process_holds_is_seen():
    assert held_by(os.getpid())[0].rss > 1_000_000
    assert held_by(2**22 + 1) == []


def test_a_script_before_the_browser_is_not_the_browser(monkeypatch):
    def one(pid, *, main):
        return Held(ME._replace(pid=pid), 1, renderer=False, main=main)

    script, browser, zygote = one(2, main=True), one(3, main=True), one(4, main=False)
    monkeypatch.setattr(memory, "held_by", lambda _root: [script, browser, zygote])
    assert memory.chromium(1) == browser.stat
    monkeypatch.setattr(memory, "held_by", lambda _root: [zygote])
    assert memory.chromium(1) is None


def test_the_browser_is_still_held_when_the_script_before_it_has_ended():
    script = subprocess.Popen(
        ["sh", "-c", "sleep 600 & echo $!; wait"], stdout=subprocess.PIPE, text=True
    )
    pid = int(script.stdout.readline())
    main = read_stat(pid)
    try:
        script.kill()
        script.wait()
        assert pid not in [one.stat.pid for one in held_by(os.getpid())]
        assert pid in [one.stat.pid for one in held_by(os.getpid(), main)]
        another = main._replace(start_time=main.start_time + 1)
        assert pid not in [one.stat.pid for one in held_by(os.getpid(), another)]
    finally:
        os.kill(pid, signal.SIGKILL)
        script.stdout.close()
