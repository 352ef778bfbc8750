"""`tenure profile`, and `--profile` of the other commands."""

from __future__ import annotations

import shutil

from support.served import serving, wait_for


def names(place) -> list[str]:
    return [row["name"] for row in place.run("profile", "list", "--json").rows()]


def test_make_use_and_remove_a_profile(place):
    assert names(place) == ["default"]
    assert "tenure profile use office" in place.run("profile", "create", "office").err
    assert place.run("profile", "create", "office").code == 1
    assert place.run("profile", "create", "../office").code == 2
    assert names(place) == ["default", "office"]
    ref = place.script({"text": "An answer."})
    assert place.run("run", "--profile", "office", "--model", ref, "asked at work").code == 0
    assert place.run("run", "--model", ref, "asked at home").code == 0
    (work,) = place.run("sessions", "list", "--profile", "office", "--json").rows()
    (home,) = place.run("sessions", "list", "--json").rows()
    assert (work["title"], home["title"]) == ("asked at work", "asked at home")
    assert (work["profile"], home["profile"]) == ("office", "default")
    assert "asked at home" not in place.run("sessions", "show", "--profile", "office", "last").out

    assert place.run("profile", "use", "office").code == 0
    assert place.run("profile", "list").out.splitlines() == ["  default", "* office"]
    assert "asked at work" in place.run("sessions", "show", "last").out
    assert "asked at home" in place.run("sessions", "show", "last", "--profile", "default").out
    refused = place.run("profile", "delete", "office", "--yes")
    assert refused.code == 1 and "use another one first" in refused.sentence
    place.run("profile", "use", "default")
    assert place.run("profile", "delete", "office").code == 2  # nobody can be asked
    for name, why in (("nowhere", "There is no profile"), ("default", "the home itself")):
        refused = place.run("profile", "delete", name)
        assert refused.code == 2 and why in refused.sentence, "said before it is asked about"
    assert place.run("profile", "delete", "office", "--yes").code == 0
    assert names(place) == ["default"]
    assert place.run("sessions", "list", "--json").rows() == [home]


def test_the_profile_in_use_is_not_deleted_and_one_that_is_gone_is_told(place):
    with serving(place):  # which serves the default one
        place.run("profile", "create", "office")
        place.run("profile", "use", "office")
        refused = place.run("profile", "delete", "office", "--yes")
        assert refused.code == 1 and "tenure profile use default" in refused.sentence
        shutil.rmtree(place.home / "profiles" / "office")
        gone = place.run("sessions", "list")
        assert gone.code == 2 and "tenure profile use default" in gone.sentence
        assert place.run("profile", "use", "default").code == 0
        assert place.run("sessions", "list").code == 0


def test_a_profile_has_its_own_model_and_keys(place):
    ref = place.script({"text": "From the profile's model."})
    place.run("profile", "create", "office")
    assert place.run("model", "use", ref, "--profile", "office").code == 0
    assert not (place.home / "config.toml").exists()
    assert "profiles/office/config.toml" in place.run("config", "where", "--profile", "office").out
    done = place.run("run", "--profile", "office", "hi")
    assert done.out.strip() == "From the profile's model."


def test_a_name_that_no_profile_has_is_told(place):
    for command in (["run", "hi"], ["sessions", "list"], ["model", "list"], ["config", "check"]):
        done = place.run(*command, "--profile", "nope")
        assert done.code == 2 and "tenure profile create nope" in done.sentence
    assert place.run("profile", "use", "nope").code == 2
    served = place.run("serve", "--port", "0", "--profile", "nope")
    assert served.code == 2 and "tenure profile create nope" in served.sentence
    assert not (place.home / "profiles").exists()


def test_a_gateway_serves_every_profile_and_keeps_what_is_live(place):
    ref = place.script([{"gate": "never"}, {"text": "late"}])
    place.run("profile", "create", "office")
    with serving(place, "--model", ref, "--profile", "office"):
        assert "* default" in place.run("profile", "list").out  # the command's own choice
        child = place.popen("run", "--profile", "office", "hi")
        try:
            wait_for(lambda: "1 live" in place.run("profile", "list").out, "it runs")
            refused = place.run("profile", "delete", "office", "--yes")
            assert refused.code == 1 and "1 session is live" in refused.sentence
        finally:
            child.terminate()
            child.communicate()


def test_a_profile_in_use_whose_folder_is_gone_can_be_left_or_made_again(place):
    place.run("profile", "create", "office")
    place.run("profile", "use", "office")
    shutil.rmtree(place.home / "profiles" / "office")
    assert "tenure profile create office" in place.run("sessions", "list").sentence
    assert names(place) == ["default"]
    assert place.run("profile", "create", "office").code == 0
    assert place.run("sessions", "list").code == 0
    assert place.run("profile", "use", "default").code == 0
