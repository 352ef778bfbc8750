"""A running gateway follows its configuration file; nothing is restarted."""

from __future__ import annotations

from support.profiles import turn
from support.served import serving


async def test_the_next_turn_has_the_new_model_and_the_port_waits(place):
    one = place.script({"text": "From one."}, name="one.json", loop=True)
    two = place.script({"text": "From two."}, name="two.json", loop=True)
    place.config(f'[model]\ndefault = "{one}"\n')
    with serving(place) as served:
        async with served.client() as client:
            session = await client.ready_session()
            await client.call("profile.create", name="work")
            work = await client.ready_session(profile="work")
            assert (await turn(client, session))["text"] == "From one."
            place.config(f'[model]\ndefault = "{two}"\n[server]\nport = 1\n')
            assert (await turn(client, session))["text"] == "From two."
            told = [e.payload["text"] for e in client.seen if e.type == "notification.show"]
            assert len(told) == 1 and "model.default" in told[0]
            assert "server.port: counts from the next start" not in told[0]  # --port stands over it
            assert (await turn(client, work))["text"] == "From two."
            own = place.home / "profiles" / "work" / "config.toml"
            own.write_text(f'[model]\ndefault = "{one}"\n')
            assert (await turn(client, work))["text"] == "From one."
            assert (await turn(client, session))["text"] == "From two."
            place.config("[model\n")
            assert (await turn(client, session))["text"] == "From two."
            assert (
                "config.toml"
                in (await client.call("session.resume", session_id=session))["info"][
                    "config_warning"
                ]
            )
        assert served.process.poll() is None
    assert "not valid TOML" in place.run("doctor").sentence
    assert "stays so" in (place.home / "logs" / "gateway.log").read_text()
