"""Tests for whoever writes a store: what graphmem needs of an engine.

Derive a class of tests, and give it a fixture ``store`` that opens yours::

    class TestMyStore(StoreConformance):
        @pytest.fixture
        def store(self):
            store = MyStore(...)
            yield store
            store.close()

The store may hold other data. Each test works in a namespace of its own, which is removed after it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import numpy as np
import pytest

from graphmem.errors import QueryError, ReadOnlyError, StoreError
from graphmem.store.port import SCHEMA_VERSION, Limits, Row, Store, Transaction
from graphmem.store.queries import adhoc

__all__ = ["StoreConformance"]

_CREATE = adhoc(
    "CREATE (a:Agent {id: $id, ns: $ns, name: $name, created_at: 1}) RETURN a.id AS id", "write"
)
_NAMES = adhoc("MATCH (a:Agent) WHERE a.ns = $ns RETURN a.name AS name ORDER BY name")
_REMOVE = adhoc("MATCH (n) WHERE n.ns = $ns DETACH DELETE n", "write")
_ECHO = adhoc("RETURN $value AS value")
_TASK = adhoc(
    "CREATE (t:Task {id: $id, ns: $ns, key: $text, description: $text, created_at: 1}) "
    "RETURN t.id AS id",
    "write",
)
_VALUES = [None, True, 0, -(2**53), 0.1, "", "é\n'\"\\", [], ["a", "b"], [1, None], {"a": [1]}]


class _EndError(Exception):
    """Ends a transaction."""


class StoreConformance:
    """The behaviour of a store; the fixture ``store`` is yours."""

    @pytest.fixture
    def ns(self, store: Store) -> Iterator[str]:
        """A namespace that is removed after the test."""
        ns = f"conformance-{uuid4().hex}"
        store.apply_schema()
        yield ns
        store.write(_REMOVE, ns=ns)

    def _create(self, run: Any, ns: str, name: str) -> list[Row]:
        rows: list[Row] = run(_CREATE, id=f"{name} {ns}", ns=ns, name=name)
        return rows

    def _names(self, store: Store, ns: str) -> list[str]:
        return [row["name"] for row in store.read(_NAMES, ns=ns)]

    def test_the_schema_is_applied_once(self, store: Store) -> None:
        assert store.apply_schema() == SCHEMA_VERSION
        assert store.apply_schema(repair=True) == SCHEMA_VERSION
        assert store.exists()

    def test_a_write_returns_its_rows_and_is_read(self, store: Store, ns: str) -> None:
        assert self._create(store.write, ns, "ada") == [{"id": f"ada {ns}"}]
        assert self._names(store, ns) == ["ada"]

    @pytest.mark.parametrize("value", _VALUES, ids=repr)
    def test_a_parameter_comes_back(self, store: Store, value: object) -> None:
        [row] = store.read(_ECHO, value=value)
        assert row == {"value": value}
        assert type(row["value"]) is type(value)

    def test_a_read_does_not_write(self, store: Store, ns: str) -> None:
        text = adhoc("CREATE (a:Agent {id: $id, ns: $ns, name: 'ada', created_at: 1})")
        with pytest.raises(ReadOnlyError):
            store.read(text, id=f"ada {ns}", ns=ns)
        assert self._names(store, ns) == []

    def test_a_statement_that_is_no_cypher_is_an_error(self, store: Store) -> None:
        with pytest.raises(QueryError):
            store.read(adhoc("RETURN ) AS nothing"))

    def test_a_transaction_reads_what_it_wrote(self, store: Store, ns: str) -> None:
        def work(tx: Transaction) -> list[Row]:
            assert tx.run(_NAMES, ns=ns) == []
            self._create(tx.run, ns, "ada")
            assert tx.run(_NAMES, ns=ns) == [{"name": "ada"}]
            return self._create(tx.finish, ns, "bob")

        assert store.transact(work) == [{"id": f"bob {ns}"}]
        assert self._names(store, ns) == ["ada", "bob"]

    def test_an_exception_rolls_a_transaction_back(self, store: Store, ns: str) -> None:
        def work(tx: Transaction) -> None:
            self._create(tx.run, ns, "ada")
            raise _EndError

        with pytest.raises(_EndError):
            store.transact(work)
        assert self._names(store, ns) == []
        self._create(store.write, ns, "bob")
        assert self._names(store, ns) == ["bob"]

    def test_an_attempt_that_fits_stays(self, store: Store, ns: str) -> None:
        rows = store.attempt(_CREATE, bool, id=f"ada {ns}", ns=ns, name="ada")
        assert rows == [{"id": f"ada {ns}"}]
        assert self._names(store, ns) == ["ada"]

    def test_an_attempt_that_does_not_fit_is_undone_or_an_error(
        self, store: Store, ns: str
    ) -> None:
        """Where nobody else can write meanwhile, rows that do not fit are a damaged graph."""
        given = {"id": f"ada {ns}", "ns": ns, "name": "ada"}
        if store.capabilities.server:
            assert store.attempt(_CREATE, lambda _: False, **given) == []
            assert self._names(store, ns) == []
        else:
            with pytest.raises(StoreError):
                store.attempt(_CREATE, lambda _: False, **given)

    def test_a_view_reads(self, store: Store, ns: str) -> None:
        self._create(store.write, ns, "ada")
        assert store.view(lambda tx: tx.run(_NAMES, ns=ns) + tx.run(_NAMES, ns=ns)) == (
            2 * [{"name": "ada"}]
        )

    def test_a_query_of_a_user_is_cut_at_its_limit(self, store: Store) -> None:
        text = adhoc("UNWIND range(1, 5) AS x RETURN x AS x ORDER BY x")
        rows = store.ask(text, Limits(seconds=30.0, rows=3))
        assert (list(rows), rows.truncated) == ([{"x": 1}, {"x": 2}, {"x": 3}], True)
        rows = store.ask(text, Limits(seconds=30.0, rows=5))
        assert (len(rows), rows.truncated) == (5, False)

    def test_texts_are_found_by_meaning_and_by_words(self, store: Store, ns: str) -> None:
        texts = {f"{number} {ns}": f"text {word}" for number, word in enumerate(("red", "blue"))}
        for identity, text in texts.items():
            store.write(_TASK, id=identity, ns=ns, text=text)
        vectors = dict(zip(texts.values(), np.eye(8, dtype=np.float32), strict=False))
        index = store.index(ns)
        index.open("conformance", 8)
        index.put("Task", texts, vectors)
        red, blue = texts
        near = index.exactly("Task", vectors["text red"], 2)
        assert near == [(red, 1.0), (blue, 0.0)]
        assert [key for key, _ in index.matching("Task", ["blue"], vectors["text red"], 2)] == [
            blue
        ]
        assert index.count("Task") == 2
        index.tidy()
        assert set(index.matrix("Task", [red, blue])[0]) == {red, blue}

    def test_a_closed_store_is_an_error(self, store: Store) -> None:
        store.close()
        store.close()
        with pytest.raises(StoreError, match="closed"):
            store.read(_ECHO, value=1)
