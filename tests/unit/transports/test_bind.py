"""Where a gateway listens: what cannot be is told with the option that changes it."""

from __future__ import annotations

import socket

import pytest

from tenure.errors import ConfigError
from tenure.server import bind


def test_an_address_that_is_not_ours():
    with pytest.raises(ConfigError, match=r"192\.0\.2\.1 is no address of this machine .*--host"):
        bind("192.0.2.1", 0)


def test_a_port_that_is_taken():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        with pytest.raises(ConfigError, match=r"cannot be used .*--port"):
            bind("127.0.0.1", taken.getsockname()[1])
