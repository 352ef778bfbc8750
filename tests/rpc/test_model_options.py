"""model.options: providers and models to choose from."""

from __future__ import annotations

from tenure.rpc.handlers.setup import with_current


async def test_the_session_model_is_the_current_one_though_named_by_hand(rig):
    assert (await rig.call("model.options"))["providers"] == []
    session = await rig.session()
    options = await rig.call("model.options", session_id=session)
    assert (options["provider"], options["model"]) == ("scripted", "test")
    (row,) = options["providers"]
    assert (row["slug"], row["models"], row["is_current"]) == ("scripted", ["test"], True)
    assert (await rig.call("model.options", session_id="gone"))["provider"] == "scripted"
    await rig.refuses_wrong_types("model.options")


def test_marking_the_current_one():
    rows = [
        {"slug": "a", "models": ["m"], "total_models": 1, "is_current": True},
        {"slug": "b", "models": ["n"], "total_models": 1, "is_current": False},
    ]
    options = with_current({"providers": rows, "provider": "a", "model": "m"}, "b:o")
    assert [(r["slug"], r["is_current"], r["models"]) for r in options["providers"]] == [
        ("a", False, ["m"]),
        ("b", True, ["o", "n"]),
    ]
    assert rows[0]["is_current"], "the catalog's own rows stay as they are"
