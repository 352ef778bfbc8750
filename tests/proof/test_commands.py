"""The table of commands names modules that are there."""

from __future__ import annotations

import argparse
import importlib

import pytest

from proof.__main__ import COMMANDS, main


def test_every_command_is_a_module_of_the_one_shape():
    for name, (module, about) in COMMANDS.items():
        found = importlib.import_module(module)
        found.add_arguments(argparse.ArgumentParser(name))
        assert callable(found.main)
        assert about


def test_an_unknown_command_is_misuse(capsys):
    with pytest.raises(SystemExit) as caught:
        main(["nonsense"])
    assert caught.value.code == 2
    assert "nonsense" in capsys.readouterr().err
