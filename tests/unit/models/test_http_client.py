"""Proxies and hints from mappings and headers."""

import pytest

from tenure.clock import SystemClock
from tenure.errors import ConfigError
from tenure.models.http_client import proxy_for, retry_after
from tenure.net.certificates import certificates

PROXY = "http://proxy:3128"


@pytest.mark.parametrize(
    ("url", "environ", "proxy"),
    [
        ("https://api.x.com/v1", {"HTTPS_PROXY": PROXY}, PROXY),
        ("https://api.x.com/v1", {"https_proxy": PROXY}, PROXY),
        ("https://api.x.com/v1", {"HTTP_PROXY": PROXY}, None),
        ("http://api.x.com/v1", {"ALL_PROXY": PROXY}, PROXY),
        ("https://api.x.com/v1", {"HTTPS_PROXY": PROXY, "NO_PROXY": "a.org, .x.com"}, None),
        ("https://apix.com/v1", {"HTTPS_PROXY": PROXY, "NO_PROXY": "x.com"}, PROXY),
        ("https://api.x.com/v1", {"HTTPS_PROXY": PROXY, "NO_PROXY": "*"}, None),
        ("http://127.0.0.1:1/v1", {"ALL_PROXY": PROXY}, None),
        ("http://localhost:1/v1", {"HTTP_PROXY": PROXY}, None),
        ("https://api.x.com/v1", {}, None),
    ],
)
def test_the_proxy(url, environ, proxy):
    assert proxy_for(url, environ) == proxy


def test_retry_after():
    now = SystemClock().wall()
    assert retry_after("7", now) == 7
    assert retry_after("-1", now) == 0
    assert retry_after("Thu, 01 Jan 1970 00:00:10 GMT", 3) == 7
    assert retry_after("soon", now) is None
    assert retry_after("", now) is None


def test_certificates_that_cannot_be_read(tmp_path):
    with pytest.raises(ConfigError, match=r"nothing\.pem cannot be read"):
        certificates({"SSL_CERT_FILE": str(tmp_path / "nothing.pem")})
