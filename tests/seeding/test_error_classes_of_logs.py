"""The classes of the errors in real logs: 54,320 of MySQL, 73 of the tools of an airline."""

from __future__ import annotations

from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from graphmem.models import Episode
from graphmem.seeding import Origin, sources
from graphmem.seeding.formats import find
from graphmem.text.error_classes import error_class

MYSQL = "Error executing query: "


@cache
def errors(folder: Path, name: str) -> Counter[str]:
    """Return the errors of the steps in the logs of a folder, with how often each occurs."""
    found: Counter[str] = Counter()
    for source in sources([str(folder)]):
        if source.stem in ("README", "LICENSE"):
            continue
        with source.open() as (_, stream):
            for record in find(name).read(stream, Origin(source.stem, source.stem)):
                assert isinstance(record, tuple)
                assert isinstance(record[1], Episode)
                found.update(step.error for step in record[1].steps if step.error)
    return found


def classes(errors: Counter[str]) -> Counter[str]:
    """Return how many errors each class has."""
    found: Counter[str] = Counter()
    for text, count in errors.items():
        found[error_class(text)] += count
    return found


@pytest.fixture
def mysql(shared_data: Path) -> Counter[str]:
    return errors(shared_data / "intercode_sql", "intercode")


def test_mysql_errors_fall_into_as_many_classes_as_it_has_wordings(mysql: Counter[str]) -> None:
    """4,912 different texts; read by eye, these are 28 wordings of MySQL and one of InterCode.

    One wording has two classes, as MySQL does not quote the name of a function. Fewer than 25
    classes would mean that wordings were merged; more than 40 that names or statements were not
    masked, as there are more than 1,000 of each.
    """
    assert (mysql.total(), len(mysql)) == (54_320, 4_912)
    found = classes(mysql)
    assert 25 <= len(found) <= 40
    assert all(name.startswith(MYSQL) for name in found)


def test_the_tools_of_an_airline_have_eight_errors(shared_data: Path) -> None:
    found = errors(shared_data / "tau_airline", "tau-bench")
    assert (found.total(), len(found)) == (73, 23)
    assert classes(found) == {
        "Error: payment amount does not add up, total price is <number>, but paid <number>": 24,
        "Error: flight <id> not available on date <time>": 15,
        "Error: gift card balance is not enough": 12,
        "Error: not enough seats on flight <id>": 9,
        "Error: certificate cannot be used to update reservation": 4,
        "Error: payment method not found": 4,
        "Error: payment method <id> not found": 3,
        "Error: not enough balance in payment method <id>": 2,
    }
