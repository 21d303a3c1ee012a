"""Which expressions no engine is asked, because it could not stop them."""

from __future__ import annotations

import pytest

from graphmem.errors import QueryError
from graphmem.store.allowed import check_stoppable
from graphmem.store.queries import catalog
from tests.faults.hostile import HONEST, LARGE
from tests.unit.test_allowed import documented

REFUSED = {
    "RETURN [x IN range(1, 100000000) | x] AS n": "UNWIND range",
    "RETURN reduce(a = 0, x IN range(1, 100000000) | a + x) AS n": "UNWIND range",
    "WITH `range`(1, 100000000) AS r RETURN all(x IN r WHERE x > 0) AS n": "UNWIND range",
    "UNWIND [x IN range(1, 20000) | x] AS n RETURN n": "UNWIND range",
    "UNWIND range(1, 20000) + [1] AS n RETURN n": "UNWIND range",
    "UNWIND [1] AS a RETURN range(a, a + 100000000) AS n": "numbers",
    "RETURN range(100000000, 1, -1) AS n": "UNWIND range",
    "RETURN range(-99999999999999999999, 99999999999999999999) AS n": "UNWIND range",
    "RETURN [x IN range(1, 200) | [y IN range(1, 200) | x * y]] AS n": "all loops together",
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
    "RETURN [x IN range(1, 100) | [y IN range(-5, 4, 2) | x * y]] AS n, range(5, 1) AS none",
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
    "forecasting.pool",
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
