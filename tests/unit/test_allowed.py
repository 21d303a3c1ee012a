"""What Cypher of others is allowed: honest queries in any dress, and no attack in any disguise."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from graphmem.errors import QueryError, ReadOnlyError
from graphmem.store.allowed import check_stoppable, only_reads, tokenize
from graphmem.store.queries import catalog, readable
from tests.faults.hostile import ATTACKS, HONEST, LARGE, disguises

ROOT = Path(__file__).resolve().parents[2]


def documented() -> list[str]:
    """The Cypher of all pages, and what is given for Browser."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    found = [
        block
        for page in pages
        for block in re.findall(r"```cypher[^\n]*\n(.*?)```", page.read_text(), re.DOTALL)
    ]
    saved = (ROOT / "cypher/browser/saved-queries.cypher").read_text()
    return found + [part for part in re.split(r";\n", saved) if part.strip()]


@pytest.mark.parametrize("text", documented())
def test_what_is_documented_is_allowed(text: str) -> None:
    assert readable(text).text


def test_procedures_that_read_are_allowed_as_text() -> None:
    texts = [
        text
        for query in catalog()
        if query.mode == "read" and query.name != "schema.indexes"  # SHOW, on a server only
        for text in {query.wanting(*query.options).text, query.wanting().text}
    ]
    assert len(texts) > 100
    for text in texts:
        assert list(tokenize(only_reads(text))) == list(tokenize(text))


@pytest.mark.parametrize("text", HONEST)
def test_an_honest_query_is_allowed(text: str) -> None:
    assert only_reads(text).split() == text.split()


@pytest.mark.parametrize("text", ATTACKS)
def test_an_attack_is_refused(text: str) -> None:
    with pytest.raises(QueryError):
        readable(text)


@given(st.data())
def test_an_honest_query_keeps_its_tokens_and_their_places_in_any_dress(
    data: st.DataObject,
) -> None:
    text = data.draw(disguises(data.draw(st.sampled_from(HONEST))))
    sent = only_reads(text)
    assert list(tokenize(sent)) == list(tokenize(text))
    bare = re.sub(r"'[^']*'", "''", sent)
    assert "//" not in bare
    assert "/*" not in bare
    assert set(re.findall(r"\s", bare)) <= {" ", "\n"}


@given(st.text(max_size=60))
@example(";")
def test_any_text_is_refused_or_sent_as_its_tokens(text: str) -> None:
    try:
        sent = only_reads(text)
    except QueryError:
        return
    tokens = list(tokenize(text))
    while tokens and tokens[-1].text == ";":  # it may end in one
        tokens.pop()
    assert list(tokenize(sent)) == tokens


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("MATCH (n) DELETE n", "only reading is allowed here: DELETE writes"),
        ("CREATE (n)", "only reading is allowed here: CREATE writes"),
        ("LOAD CSV FROM 'x' AS l RETURN l", "LOAD CSV reads files"),
        ("RETURN apoc.text.join(['a'], '') AS x", "the function 'apoc.text.join' is not allowed"),
        ("CALL dbms.listConfig()", "the procedure 'dbms.listconfig' is not allowed"),
        ("RETURN 1 AS x; RETURN 2 AS x", "only one statement"),
        ("RETURN 'a", "is not closed"),
        ("RETURN 1 /* x", "the comment .* is not closed"),
        ("RETURN (1", "is not closed"),
        ("RETURN 1\nAS été", r"line 2, column 4.*between backticks"),
        ("RETURN " + "(" * 200 + "1" + ")" * 200 + " AS x", "brackets within brackets"),
        ("RETURN '" + "x" * 100_000 + "' AS x", "give long values as parameters"),
        ("SHOW USERS", "'SHOW' is not expected"),
        ("RETURN '\\u0027' AS x", "can stand for a quote"),
        ("RETURN '\ud800' AS x", "surrogate"),
    ],
)
def test_the_error_says_what_is_refused(text: str, said: str) -> None:
    with pytest.raises(QueryError, match=said):
        only_reads(text)


def test_a_query_that_writes_is_told_apart() -> None:
    with pytest.raises(ReadOnlyError):
        readable("MATCH (n) SET n.x = 1")
    with pytest.raises(ReadOnlyError):
        readable("learning.add")


REFUSED = {
    "RETURN [x IN range(1, 2) | x] AS n": "UNWIND range",
    "RETURN reduce(a = 0, x IN range(1, 2) | a + x) AS n": "UNWIND range",
    "WITH `range`(1, 2) AS r RETURN all(x IN r WHERE x > 0) AS n": "UNWIND range",
    "UNWIND [x IN range(1, 20000) | x] AS n RETURN n": "UNWIND range",
    "UNWIND range(1, 20000) + [1] AS n RETURN n": "UNWIND range",
    "RETURN 'aaa' =~ '(a|aa)+b' AS n": "without groups",
    "RETURN 'aaa' =~ '.*a.*a.*b' AS n": "at most two",
    "RETURN 'aaa' =~ $pattern AS n": "a text in quotes",
    "RETURN 'aaa' =~ '(a' + '*)*b' AS n": "a text in quotes",
    "RETURN reduce(s = 'a', x IN [1, 2] | s + s) AS n": "only once",
    "RETURN reduce(s = 'a', x IN [1, 2] | [s, s]) AS n": "only once",
    "RETURN reduce(s = 'a', x IN [1, 2] | replace(s, 'a', 'aa')) AS n": "without replace",
    "RETURN reduce(s = [], x IN [1, 2] | [y IN s WHERE y > 1 | s] + s) AS n": "only once",
    "WITH 'aa' AS A" + " WITH A + A + A AS A" * 8 + " RETURN A": "times as large",
    "WITH {v: 'aa'} AS m" + " WITH {v: m.v + m.v + m.v} AS m" * 8 + " RETURN m": "times as large",
    "WITH 1 AS a" + " WITH [a, a, a] AS a" * 8 + " RETURN a": "times as large",
    "WITH 1 AS a" + " CALL { WITH a RETURN a + a + a AS b } WITH b AS a" * 8 + " RETURN a": "large",
}
ACCEPTED = [
    *HONEST,
    "UNWIND range(1, 1000000000) AS x RETURN count(x) AS n",
    "MATCH (n) WHERE n.text =~ '(?i).*refund.*' RETURN n.text AS text",
    "RETURN reduce(known = [], some IN [[1]] | known + [x IN some WHERE NOT x IN known]) AS n",
    "MATCH (n) WITH n, n.a + n.b + n.c AS sum WITH sum + 1 AS sum RETURN sum + sum AS twice",
]


@pytest.mark.parametrize("text", REFUSED)
def test_what_could_not_be_stopped_is_refused(text: str) -> None:
    with pytest.raises(QueryError, match=REFUSED[text]):
        check_stoppable(text)


@pytest.mark.parametrize("text", LARGE.values(), ids=LARGE)
def test_what_grows_is_refused(text: str) -> None:
    with pytest.raises(QueryError):
        check_stoppable(text)


@pytest.mark.parametrize("text", ACCEPTED)
def test_what_ends_is_accepted(text: str) -> None:
    check_stoppable(text)


BY_NAME = (
    "schema.indexes",
    "entries.matching",
    "entries.fitting",
    "search.nearest_entries",
    "views.episodes",
)
"""Procedures whose text is refused; by their names they run."""


def test_what_graphmem_gives_to_people_is_accepted() -> None:
    texts = [
        query.wanting(*query.options).text
        for query in catalog()
        if query.mode == "read" and query.name not in BY_NAME
    ]
    for text in texts + documented():
        check_stoppable(text)
