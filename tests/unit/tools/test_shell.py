"""The shell: its output within limits, its end with the command."""

import asyncio

import pytest

from tenure.errors import ToolError
from tenure.testing.clock import ManualClock
from tenure.tools import output as output_module
from tenure.tools.background import Ring
from tenure.tools.output import Capture
from tenure.tools.shell import Shell

SHELL = Shell(1_000, 60.0)


@pytest.mark.parametrize(
    ("command", "text", "failed"),
    [
        ("echo out; echo err >&2", "out\nerr\n", False),
        ("true", "(no output)", False),
        ("echo a; exit 3", "a\n[exit code 3]", True),
        ("exit 3", "[exit code 3]", True),
        ("kill -9 $$", "[ended by SIGKILL]", True),
        ("pwd | sed 's,.*/,,'", "work\n", False),
        ("cat", "(no output)", False),
        ("[[ a < b ]] && echo bash", "bash\n", False),
        ("none-such-command 2>/dev/null", "[exit code 127]", True),
    ],
)
async def test_a_command_gives_its_output_and_its_end(desk, command, text, failed):
    result = await desk.call(SHELL, command=command)
    assert (result.text, result.is_error) == (text, failed)
    await desk.end_turn()
    assert desk.leases() == []


async def test_what_is_no_command_is_refused(desk):
    for command in ("", "  ", "a\0b"):
        with pytest.raises(ToolError):
            await desk.call(SHELL, command=command)


async def test_output_is_shown_while_it_runs(desk):
    await desk.call(SHELL, command="echo one; echo two")
    assert "".join(desk.shown) == "one\ntwo\n"


async def test_the_timeout_ends_it_and_keeps_what_it_said(desk):
    clock = desk.clock = ManualClock()
    seen = asyncio.Event()
    desk.shown = []
    context = desk.context()
    context.output = lambda text: seen.set()
    task = asyncio.ensure_future(SHELL.call('{"command": "echo begun; sleep 1000"}', context))
    await seen.wait()
    clock.advance(61)
    result = await task
    assert result.text == "begun\n[ended after 60 s; give a longer timeout_s or use background]"
    assert result.is_error
    await desk.end_turn()
    assert desk.leases() == []


async def test_much_output_keeps_head_and_tail_and_the_whole_in_a_file(desk):
    result = await desk.call(SHELL, command="seq 1 2000")
    assert result.text.startswith("1\n2\n3\n")
    assert result.text.endswith("1999\n2000\n")
    assert len(result.text) < 1_300
    (spill,) = (desk.base / "spill").iterdir()
    assert spill.read_text() == "".join(f"{n}\n" for n in range(1, 2001))
    assert str(spill) in result.text
    assert spill.stat().st_mode & 0o777 == 0o600


def capture(tmp_path, bytes_max=100):
    shown = []
    return Capture(bytes_max, tmp_path / "spill", shown.append), shown


async def test_a_pipe_that_is_never_empty_does_not_hold_the_loop(desk, tmp_path):
    class Endless:
        pieces = 100

        async def read(self):
            self.pieces -= 1
            return b"x" if self.pieces else b""

    ticks = 0

    async def tick():
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0)

    ticking = asyncio.ensure_future(tick())
    kept, _ = capture(tmp_path)
    await kept.drain(Endless(), desk.turn)
    ticking.cancel()
    assert ticks >= 90
    assert kept.total == 99


async def test_the_spill_has_a_limit_and_a_full_disk_is_survived(desk, tmp_path, monkeypatch):
    monkeypatch.setattr(output_module, "SPILL_BYTES_MAX", 150)
    kept, _ = capture(tmp_path)
    for _number in range(40):
        kept.take(b"0123456789")
        await kept.flush(desk.turn)
    assert kept.spill.stat().st_size == 150
    assert "its first 150 bytes" in kept.text()

    def full(path, piece):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(output_module, "_append", full)
    kept, _ = capture(tmp_path)
    kept.take(b"x" * 1_000)
    await kept.flush(desk.turn)
    assert kept.spill is None
    assert "bytes left out" in kept.text()


@pytest.mark.parametrize("size", [0, 1, 99, 100, 101, 500])
@pytest.mark.parametrize("step", [1, 7, 1_000])
def test_head_and_tail_are_exact(tmp_path, size, step):
    data = bytes(ord("a") + n % 26 for n in range(size))
    kept, _ = capture(tmp_path)
    for start in range(0, size, step):
        kept.take(data[start : start + step])
    text = kept.text()
    if size <= 100:
        assert text == data.decode()
    else:
        assert text.startswith(data[:66].decode() + "\n[… ")
        assert text.endswith(" …]\n" + data[-34:].decode())
        assert f"{size - 100} bytes left out" in text


def test_live_output_has_a_limit_and_whole_characters(tmp_path, monkeypatch):
    monkeypatch.setattr(output_module, "LIVE_BYTES_MAX", 10)
    kept, shown = capture(tmp_path)
    kept.take("é".encode()[:1])
    kept.take("é".encode()[1:] + b"x" * 20)
    kept.take(b"y" * 20)
    assert "".join(shown) == "éxxxxxxxx\n[… more output, not shown live …]\n"


def test_a_ring_keeps_the_latest_and_counts_the_rest():
    ring = Ring(5)
    ring.add(b"abc")
    assert ring.since(0) == (b"abc", 0)
    ring.add(b"defg")
    assert ring.since(0) == (b"cdefg", 2)
    assert ring.since(3) == (b"defg", 0)
    assert ring.since(7) == (b"", 0)
