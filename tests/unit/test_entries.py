"""What is seen to be a valid entry at first glance is the entry that validation makes of it."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from graphmem.errors import ValidationError
from graphmem.levels.entries import _plain_labels, _text_row, row_of
from graphmem.models.levels import NewEntry

LEVEL = "task:deploy:notes"
TEXTS = st.one_of(st.text(max_size=8), st.sampled_from(["\ud800", " a ", "Ä", "\x1c", "A\u030a"]))


@given(
    content=st.one_of(TEXTS, st.none(), st.integers(), st.lists(TEXTS, max_size=2)),
    tags=st.one_of(st.lists(TEXTS, max_size=3), st.tuples(TEXTS, st.just(True)), TEXTS),
    key=st.one_of(st.none(), TEXTS, st.just("k" * 1_001), st.booleans()),
    ttl=st.one_of(st.none(), st.floats(), st.integers(-1, 2), st.booleans()),
    relevance=st.one_of(st.floats(), st.integers(0, 2), st.booleans()),
)
def test_a_glance_lets_nothing_pass_that_validation_changes_or_refuses(
    content: Any, tags: Any, key: Any, ttl: Any, relevance: Any
) -> None:
    given: dict[str, Any] = {"tags": tags, "key": key, "ttl": ttl, "relevance": relevance}
    try:
        labels = _plain_labels(content, **given)
    except ValidationError:
        labels = None
    if labels is None:
        return
    new = NewEntry(content=content, **given)
    whole = row_of("default", LEVEL, new, 7)
    seen = _text_row("default", LEVEL, new.key, str(content), 7, labels)
    assert new.key == key
    assert seen | {"id": ""} == whole | {"id": ""}
