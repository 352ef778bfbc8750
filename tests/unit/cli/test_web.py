"""`tenure web login` and `logout`, as a person calls them."""

import asyncio
import json
import stat

from support.commands import TENURE
from tenure.testing.model_server import Answer, ModelServer

KEY = "BSA-0123456789abcdef"
FOUND = {"web": {"results": [{"title": "a", "url": "https://a.test", "description": "b"}]}}


async def run(place, *arguments, key=""):
    process = await asyncio.create_subprocess_exec(
        *TENURE, *arguments, env=place.env, cwd=place.work,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    said, _ = await process.communicate(f"{key}\n".encode())
    return process.returncode, said.decode()


async def test_a_key_is_tried_kept_private_and_forgotten(place):
    async with ModelServer() as server:
        place.config(
            f'[web.search]\nprovider = "brave"\nurl = "http://127.0.0.1:{server.port}/v1"\n'
        )
        server.answer(Answer(json.dumps(FOUND).encode(), content_type="application/json"))
        code, said = await run(place, "web", "login", "brave", key=KEY)
        assert (code, KEY in said) == (0, False), said
        assert server.requests[0].headers["x-subscription-token"] == KEY
        file = place.home / "search-keys.json"
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert KEY in file.read_text()

        server.answer(Answer(b"{}", status=401))
        code, said = await run(place, "web", "login", "brave", key="another-key-1")
        assert code == 2
        assert "refuses the key (status 401)" in said and "not stored" in said
        assert "another-key-1" not in file.read_text() + said

        code, said = await run(place, "config", "show")
        assert KEY not in said
        assert (await run(place, "web", "logout", "brave"))[0] == 0
        assert KEY not in file.read_text()
        assert (await run(place, "web", "logout", "brave"))[0] == 1


async def test_who_has_no_key_is_told(place):
    for name in ("searxng", "google", "ddgs"):
        code, said = await run(place, "web", "login", name, key=KEY)
        assert code != 0
        assert "those are: brave, tavily" in said


async def test_a_search_key_makes_nobody_a_model_provider(place):
    place.config("")
    (place.home / "search-keys.json").write_text(json.dumps({"brave": {"key": KEY}}))
    _, said = await run(place, "doctor")
    assert "brave" not in said


async def test_the_doctor_tells_what_is_missing(place):
    place.config('[browser]\nexecutable = "no-such-browser"\n[web.search]\nprovider = "tavily"\n')
    _, said = await run(place, "doctor")
    assert "no-such-browser cannot be executed" in said
    assert "tenure web login tavily" in said
    (place.home / "search-keys.json").write_text(json.dumps({"tavily": {"key": KEY}}))
    (place.home / "search-keys.json").chmod(0o644)
    place.extra["PATH"] = str(place.root)
    place.config('[web.search]\nprovider = "tavily"\n')
    code, said = await run(place, "doctor")
    assert "tenure web login" not in said
    assert "apt-get install chromium" in said
    assert (code, "search-keys.json is readable by others" in said) == (1, True)
