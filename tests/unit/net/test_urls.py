"""URLs are read in one way."""

import pytest

from tenure.errors import ToolError
from tenure.net.urls import host_of, parse_url, same_site

READ = [
    ("http://example.org", "http://example.org/"),
    ("HTTP://EXAMPLE.org:80/a b".replace(" ", "%20"), "http://example.org/a%20b"),
    ("example.org/x?y=1#z", "https://example.org/x?y=1"),
    ("example.org:8080/x", "https://example.org:8080/x"),
    ("http://[::1]:8080/", "http://[::1]:8080/"),
    ("https://example.org./", "https://example.org/"),
    ("https://bücher.example/ä", "https://xn--bcher-kva.example/%C3%A4"),
    ("http://2130706433/", "http://2130706433/"),
]
REFUSED = [
    "", "http://", "file:///etc/passwd", "javascript:alert(1)", "ftp://x/y", "data:text/html,x",
    "view-source:http://x", "http://user@example.org/", "http://good.test@169.254.169.254/",
    "http://good.test\\@evil.test/", "http://a b/", "http://x:99999/", "http://x:0/",
    "http://exa\tmple.org/", "http://ex%61mple.org/", "http://" + "a" * 300 + "/", "x" * 9000,
    "http://[::1/", "http://☃" + "☃" * 300 + "/", "http://exa\nmple/", "chrome://settings",
]  # fmt: skip


@pytest.mark.parametrize(("text", "shown"), READ)
def test_what_a_url_is_read_as(text, shown):
    assert str(parse_url(text)) == shown


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_none_is_refused_in_a_sentence(text):
    with pytest.raises(ToolError):
        parse_url(text)
    assert host_of(text) == ""


def test_relative_ones_are_read_against_their_page():
    base = parse_url("http://a.test/b/c?d")
    assert str(parse_url("../e", base)) == "http://a.test/e"
    assert str(parse_url("//c.test/f", base)) == "http://c.test/f"
    with pytest.raises(ToolError):
        parse_url("file:///etc/passwd", base)


def test_hosts_that_count_as_one():
    assert same_site("www.a.test", "a.test")
    assert not same_site("b.a.test", "a.test")
