"""Case 94: the same verdict on HTTP and on the upgrade; loopback is not identity."""

from __future__ import annotations

import itertools

import pytest

from tenure.server import knock_of
from tenure.transports.admission import BAD_TOKENS_MAX, WINDOW_S, Admission, Knock

TOKEN = "t" * 43
HOSTS = [
    "127.0.0.1:9121",
    "localhost:9121",
    "[::1]:9121",
    "evil.example",
    "",
    "127.0.0.1.evil.example:80",
]
ORIGINS = [None, "http://localhost:9121", "http://evil.example", "null", "file://", "http://["]
TOKENS = [TOKEN, TOKEN[:-1] + "x", "", None]
PEERS = ["127.0.0.1", "::1", "10.1.2.3", ""]


def expected(host, origin, token, peer):
    local = host in {"127.0.0.1:9121", "localhost:9121", "[::1]:9121"}
    if not local or peer not in {"127.0.0.1", "::1"}:
        return 403
    if origin is not None and origin != f"http://{host}":
        return 403
    return 200 if token == TOKEN else 401


@pytest.mark.parametrize("kind", ["http", "websocket"])
def test_one_table_for_both(kind):
    for host, origin, token, peer in itertools.product(HOSTS, ORIGINS, TOKENS, PEERS):
        headers = [(b"host", host.encode())]
        if origin is not None:
            headers.append((b"origin", origin.encode()))
        if token is not None:
            headers.append((b"authorization", b"Bearer " + token.encode()))
        scope = {
            "type": kind,
            "path": "/",
            "headers": headers,
            "client": (peer, 1),
            "query_string": b"",
        }
        verdict = Admission(TOKEN).judge(knock_of(scope), 0.0)
        assert verdict.status == expected(host, origin, token, peer), (host, origin, token, peer)


def test_the_query_token_counts_for_upgrades_only():
    base = {
        "path": "/",
        "headers": [(b"host", b"localhost:1")],
        "client": ("127.0.0.1", 1),
        "query_string": b"token=" + TOKEN.encode(),
    }
    assert Admission(TOKEN).judge(knock_of({**base, "type": "websocket"}), 0.0).status == 200
    assert Admission(TOKEN).judge(knock_of({**base, "type": "http"}), 0.0).status == 401


def a_knock(token):
    return Knock(peer="127.0.0.1", host="localhost:1", origin=None, bearer=token, query_token=None)


def test_wrong_tokens_are_throttled_from_loopback_and_the_owner_is_never_locked_out():
    admission = Admission(TOKEN)
    statuses = [admission.judge(a_knock("wrong"), n / 100).status for n in range(100)]
    assert statuses == [401] * BAD_TOKENS_MAX + [429] * (100 - BAD_TOKENS_MAX)
    assert admission.judge(a_knock(TOKEN), 1.0).status == 200
    assert admission.judge(a_knock("wrong"), 2 + WINDOW_S).status == 401


def test_a_foreign_origin_with_a_good_token_is_refused_unless_listed():
    knock = Knock("127.0.0.1", "localhost:1", "https://app.example", TOKEN, None)
    assert Admission(TOKEN).judge(knock, 0.0).status == 403
    assert Admission(TOKEN, allow_origins=("https://app.example",)).judge(knock, 0.0).status == 200


def test_peers_from_elsewhere_need_a_named_host():
    knock = Knock("10.1.2.3", "box.lan:9121", None, TOKEN, None)
    assert Admission(TOKEN).judge(knock, 0.0).status == 403
    assert Admission(TOKEN, allow_hosts=("box.lan",)).judge(knock, 0.0).status == 200
    assert (
        Admission(TOKEN, allow_hosts=("box.lan",))
        .judge(Knock("10.1.2.3", "rebound.example", None, TOKEN, None), 0.0)
        .status
        == 403
    )
