"""What a test needs and does not find is a skip on a laptop, and a failure in CI."""

from __future__ import annotations

import re

import pytest

from support import needs


@pytest.fixture
def nowhere(monkeypatch):
    monkeypatch.setitem(needs.PARTS, "anvil", ("an anvil", lambda: ""))
    return monkeypatch


def test_a_missing_part_is_a_skip_or_a_failure(nowhere):
    nowhere.delenv(needs.REAL, raising=False)
    with pytest.raises(pytest.skip.Exception, match="an anvil is not here"):
        needs.need("anvil")
    nowhere.setenv(needs.REAL, "1")
    with pytest.raises(pytest.fail.Exception, match="an anvil is not here, and TENURE_TESTS_REAL"):
        needs.need("anvil")


def test_what_is_there_goes_on(nowhere):
    nowhere.setitem(needs.PARTS, "anvil", ("an anvil", lambda: "/bin/anvil"))
    nowhere.setenv(needs.REAL, "1")
    needs.need("anvil")


@pytest.mark.parametrize(("real", "outcome"), [("", "skipped"), ("1", "errors")])
def test_a_mark_is_asked_before_the_fixtures(pytester, root, nowhere, real, outcome):
    nowhere.setenv(needs.REAL, real)
    hook = (root / "tests" / "conftest.py").read_text()
    assert "def pytest_runtest_setup" in hook
    pytester.makeconftest(
        "import pytest\nfrom support import needs\nfrom support.needs import need\n"
        "needs.PARTS['anvil'] = ('an anvil', lambda: '')\n"
        + hook[hook.index("@pytest.hookimpl") :].split("\n\n\n")[0]
    )
    pytester.makepyfile(
        "import pytest\n@pytest.fixture\ndef thing(): raise AssertionError('too late')\n"
        "@pytest.mark.needs('anvil')\ndef test_it(thing): ...\n"
    )
    # What is installed beside would be loaded here a second time.
    options = ("--disable-plugin-autoload", "-o", "markers=needs: parts", "-rs")
    ran = pytester.runpytest_inprocess(*options)
    ran.assert_outcomes(**{outcome: 1})
    ran.stdout.fnmatch_lines(["*an anvil is not here*"])


def test_ci_leaves_nothing_out(root):
    assert re.search(rf"^export {needs.REAL}=1$", (root / ".ci" / "run").read_text(), re.MULTILINE)


def test_no_test_skips_a_part_by_itself(root):
    own = re.compile(r"skip\(.*(Chromium|npm|bwrap|sshd)|importorskip|skipif\(.*which")
    found = [
        f"{path.relative_to(root)}: {line.strip()}"
        for path in (root / "tests").rglob("*.py")
        for line in path.read_text().splitlines()
        if own.search(line) and path.name not in {"needs.py", "test_needs.py"}
    ]
    assert found == []
