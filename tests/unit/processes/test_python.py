"""Modules of ours in a child: nobody else decides what is imported."""

from __future__ import annotations

import os
import subprocess

from tenure.processes.python import python_argv


def test_neither_the_folder_nor_variables_decide_what_is_imported(tmp_path):
    (tmp_path / "pathlib.py").write_text("print('somebody else')")
    for env in ({}, {"PYTHONPATH": str(tmp_path)}):
        done = subprocess.run(
            python_argv("tenure.processes.python"),
            cwd=tmp_path, env={**os.environ, **env}, capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert done.stdout == ""
