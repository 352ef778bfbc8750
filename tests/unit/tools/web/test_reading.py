"""HTML as text."""

import pytest

from tenure.net.urls import parse_url
from tenure.tools.web.decoding import decode
from tenure.tools.web.reading import NODES_MAX, read_html, tidy

URL = parse_url("http://a.test/dir/page")


def text_of(html, *, links=False):
    return read_html(html.encode(), "text/html", URL, links=links).text


PIECES = [
    ("<h2>Head</h2><p>One<p>Two", "## Head\n\nOne\n\nTwo"),
    ("<ul><li>a<li>b <b>c</b></ul>", "- a\n- b c"),
    ("<pre>x\n  y</pre>after", "```\nx\n  y\n```\n\nafter"),
    ("<table><tr><th>a<th>b<tr><td>1<td>2</table>", "| a | b\n| 1 | 2"),
    ("a<br>b", "a\nb"),
    ("<img alt='A cat'>", "[image: A cat]"),
    ("<p hidden>no</p><script>no</script><style>no</style><svg>no</svg>yes", "yes"),
    ("a &amp; b &lt;c&gt;", "a & b <c>"),
    ("", ""),
    ("no tags at all", "no tags at all"),
]


@pytest.mark.parametrize(("html", "text"), PIECES)
def test_pieces(html, text):
    assert text_of(html) == text


def test_the_main_part_is_read_where_there_is_one():
    around = "<nav>menu</nav><header>top</header><footer>end</footer><aside>ad</aside>"
    long = "The story goes on and on. " * 5
    assert text_of(f"{around}<main>{long}</main><div>besides</div>") == long.strip()
    assert text_of(f"{around}<article>{long}</article>") == long.strip()
    assert text_of(f"{around}<p>{long}</p>") == long.strip()
    assert "short" in text_of(f"<main>tiny</main><p>short {long * 5}</p>")
    assert "menu" in text_of("<nav>menu only, and nothing else on this page</nav>")


def test_links_are_absolute_and_of_the_web():
    html = (
        "<a href='b'>B</a> <a href='#x'>X</a> <a href='javascript:x'>J</a> <a href=' /c d '>C</a>"
    )
    assert text_of(html, links=True) == "[B](http://a.test/dir/b) X J [C](http://a.test/c%20d)"
    assert text_of(html) == "B X J C"


def test_a_page_with_too_many_nodes_is_read_to_there():
    text = text_of("<i>x</i>" * NODES_MAX)
    assert 0 < len(text) < NODES_MAX


CHARSETS = [
    ("é".encode(), "text/html", "é"),
    ("é".encode("cp1252"), "text/html; charset=iso-8859-1", "é"),
    ("€".encode("cp1252"), 'text/html; charset="latin1"', "€"),
    (
        b"<meta charset=windows-1251>" + "я".encode("cp1251"),
        "text/html",
        "<meta charset=windows-1251>я",
    ),
    ("\ufeffé".encode(), "text/html; charset=cp1251", "é"),
    ("é".encode("utf-16"), "text/html", "é"),
    ("é".encode("cp1252"), "text/html", "é"),
    ("é".encode(), "text/html; charset=nonsense", "é"),
    ("é".encode(), "text/html; charset=base64", "é"),
    (b"xn--a", "text/html; charset=idna", "xn--a"),
    (
        "€".encode("shift_jis", "replace") + "日".encode("shift_jis"),
        "text/plain; charset=Shift_JIS",
        "?日",
    ),
    ("éé".encode()[:3], "text/plain", "é�"),
]


@pytest.mark.parametrize(("raw", "kind", "text"), CHARSETS)
def test_charsets(raw, kind, text):
    assert decode(raw, kind) == text


def test_blank_lines_do_not_pile_up():
    assert tidy("a  \n\n\n\n b\t c \n") == "a\n\nb c"
