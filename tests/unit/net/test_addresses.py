"""What of the network may be reached."""

import pytest

from tenure.errors import AddressRefused
from tenure.net.addresses import METADATA, AddressRules, parse_allowed

PUBLIC = ["93.184.216.34", "8.8.8.8", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808"]
NOT_PUBLIC = [
    "127.0.0.1", "127.9.9.9", "0.0.0.0", "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1",
    "100.64.0.1", "169.254.1.1", "169.254.169.254", "192.0.0.8", "192.0.2.1", "198.18.0.1",
    "198.51.100.7", "203.0.113.9", "224.0.0.1", "239.255.255.250", "240.0.0.1", "255.255.255.255",
    "::1", "::", "fe80::1", "fe80::1%eth0", "fc00::1", "fd12::1", "ff02::1", "2001:db8::1",
    "2001::1", "2002:7f00:1::", "2002:808:808::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1",
    "::ffff:169.254.169.254", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::1",
    "::127.0.0.1", "fec0::1", "100::1", "3fff::1", "fd00:ec2::254", "168.63.129.16",
]  # fmt: skip


@pytest.mark.parametrize("address", PUBLIC)
def test_the_public_internet_is_reached(address):
    AddressRules().check("example.org", address, 443)


@pytest.mark.parametrize("address", NOT_PUBLIC)
def test_what_is_not_public_is_refused_in_a_sentence(address):
    with pytest.raises(AddressRefused, match=r"to which example\.org leads, is .*\[web\] allow"):
        AddressRules().check("example.org", address, 80)
    with pytest.raises(AddressRefused) as caught:
        AddressRules().check(address, address, 80)
    assert "leads" not in caught.value.message


ALLOWED = [
    ("127.0.0.1", "x.test", "127.0.0.1", 80, True),
    ("127.0.0.1", "x.test", "127.0.0.2", 80, False),
    ("127.0.0.1:8080", "x.test", "127.0.0.1", 8080, True),
    ("127.0.0.1:8080", "x.test", "127.0.0.1", 80, False),
    ("127.0.0.1", "x.test", "::ffff:127.0.0.1", 80, True),
    ("10.1.0.0/16", "x.test", "10.1.9.9", 80, True),
    ("10.1.0.0/16", "x.test", "10.2.0.1", 80, False),
    ("[::1]:99", "x.test", "::1", 99, True),
    ("::1", "x.test", "::1", 5, True),
    ("fd00::/8", "x.test", "fd12::1", 5, True),
    ("wiki.local", "WIKI.local", "10.0.0.1", 80, True),
    ("wiki.local", "wiki.local.evil.test", "10.0.0.1", 80, False),
    ("*.corp.test", "a.corp.test", "10.0.0.1", 80, True),
    ("*.corp.test:81", "a.corp.test", "10.0.0.1", 80, False),
    ("0.0.0.0/0", "x.test", "10.0.0.1", 80, True),
]


@pytest.mark.parametrize(("allow", "host", "address", "port", "may"), ALLOWED)
def test_what_is_allowed_besides(allow, host, address, port, may):
    rules = AddressRules([allow])
    if may:
        rules.check(host, address, port)
    else:
        with pytest.raises(AddressRefused):
            rules.check(host, address, port)


@pytest.mark.parametrize("address", sorted(map(str, METADATA)))
def test_the_keys_of_a_cloud_are_reached_only_by_their_very_address(address):
    for wide in ("0.0.0.0/0", "::/0", "*", "x.test", "169.254.0.0/16", "fd00::/8"):
        with pytest.raises(AddressRefused, match="hands out its keys"):
            AddressRules([wide]).check("x.test", address, 80)
    AddressRules([address]).check("x.test", address, 80)


@pytest.mark.parametrize("entry", ["", "http://x", "a b", "1.2.3.4/99", "x:99999", "a/b", "x:0"])
def test_what_allows_nothing_is_told(entry):
    with pytest.raises(ValueError):
        parse_allowed(entry)
