"""Where new sessions may work."""

import asyncio
import os
import resource

import pytest

from tenure.errors import NotFound, Overloaded
from tenure.paths import is_folder
from tenure.sessions import admission
from tenure.sessions.admission import (
    SPARE_DESCRIPTORS,
    WorkingDirectories,
    check_descriptors,
    model_ref,
)


async def test_a_folder_is_looked_at_once_in_a_turn_of_the_loop_and_not_longer(
    tmp_path, monkeypatch
):
    looks = []
    monkeypatch.setattr(admission, "is_folder", lambda path: looks.append(path) or is_folder(path))
    work, folders = tmp_path / "work", WorkingDirectories(tmp_path)
    work.mkdir()
    for _ in range(3):
        assert folders.checked(str(work)) == str(work)
        assert folders.checked("") == str(tmp_path)
    assert looks == [work, tmp_path]
    work.rmdir()
    await asyncio.sleep(0)
    with pytest.raises(NotFound, match="is no folder"):
        folders.checked(str(work))


@pytest.mark.parametrize(
    "given", ["here", "/no/such/folder", "/nul\0l", "~nobody-of-that-name/x", "/" + "x" * 5000]
)
def test_what_is_no_folder_is_refused_in_a_sentence(tmp_path, given, monkeypatch):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(NotFound, match="absolute path"):
        WorkingDirectories(tmp_path).checked(given)


def test_the_last_descriptors_are_not_given_away():
    first = os.dup(2)
    os.close(first)
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (first + SPARE_DESCRIPTORS // 2, limits[1]))
    try:
        with pytest.raises(Overloaded, match="ulimit"):
            check_descriptors()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    check_descriptors()
    again = os.dup(2)
    os.close(again)
    assert again == first, "what was tried is closed"


@pytest.mark.parametrize(
    ("provider", "model", "ref"),
    [("p", "m", "p:m"), ("", "m", "m"), ("p", "", ""), ("p", "other:m", "other:m"), ("", "", "")],
)
def test_a_model_is_named_with_its_provider_once(provider, model, ref):
    assert model_ref(provider, model) == ref
