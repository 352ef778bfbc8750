"""What a session has on disk."""

import pytest

from tenure.config import Home
from tenure.errors import BadValue
from tenure.sessions.belongings import forget_files

ID = "20260131_235959_0a1b2c3d"
OTHER = "20260131_235959_ffffffff"


def filled(tmp_path):
    home = Home(tmp_path / "home", tmp_path / "cache")
    for session in (ID, OTHER):
        for folder in (home.spill, home.checkpoints / "sessions"):
            (folder / session).mkdir(parents=True)
            (folder / session / "file").touch()
    return home


def left(folder):
    return sorted(path.name for path in folder.iterdir())


def test_what_a_session_has_on_disk_goes_with_it(tmp_path):
    home = filled(tmp_path)
    forget_files(home, ID)
    assert left(home.spill) == [OTHER] == left(home.checkpoints / "sessions")
    forget_files(home, ID)


@pytest.mark.parametrize("name", ["", ".", "..", f"../{OTHER}", f"{OTHER}/file", "x"])
def test_what_is_no_session_is_not_removed(tmp_path, name):
    home = filled(tmp_path)
    with pytest.raises(BadValue):
        forget_files(home, name)
    assert left(home.spill) == [ID, OTHER] and (home.spill / OTHER / "file").exists()
