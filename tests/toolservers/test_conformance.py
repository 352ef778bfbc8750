"""The protocol's own suite for clients.

Not tried: `auth/basic-cimd` (we publish no document of ourselves), `auth/scope-step-up` (more rights are
a new login, by a person), `auth/2025-03-26-oauth-metadata-backcompat` (the SDK refuses such an issuer).
"""

from __future__ import annotations

import asyncio
import os
import shlex
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]  # the first may have to install
CLIENT = Path(__file__).with_name("conformance_client.py")
SCENARIOS = [
    "initialize", "tools_call", "elicitation-sep1034-client-defaults", "sse-retry",
    "auth/metadata-default", "auth/metadata-var1", "auth/metadata-var2", "auth/metadata-var3",
    "auth/scope-from-www-authenticate", "auth/scope-from-scopes-supported",
    "auth/scope-omitted-when-undefined", "auth/token-endpoint-auth-basic",
    "auth/token-endpoint-auth-post", "auth/token-endpoint-auth-none",
    "auth/2025-03-26-oauth-endpoint-fallback",
]  # fmt: skip


@pytest.mark.parametrize("scenario", SCENARIOS)
async def test_scenario(conformance, tmp_path, scenario):
    command = shlex.join([sys.executable, str(CLIENT)])
    process = await asyncio.create_subprocess_exec(
        str(conformance), "client", "--command", command, "--scenario", scenario,
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    said, _ = await process.communicate()
    assert process.returncode == 0, said.decode()[-4_000:]
