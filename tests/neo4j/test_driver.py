"""What the driver looks after: the database, the user, where reads go, and that writes are seen."""

from __future__ import annotations

import logging
import re
from uuid import uuid4

import pytest

from graphmem import Memory, Settings
from graphmem.errors import SettingsError
from tests.neo4j.server import Found

BEGIN = re.compile(r"C: BEGIN (\{.*\})")


@pytest.mark.neo4j
def test_a_database_that_the_server_does_not_have_is_named(neo4j: Found) -> None:
    settings = Settings(user=neo4j.user, password=neo4j.password, database="nowhere")
    with Memory.open(neo4j.uri, settings=settings) as memory:
        for ask in (memory.stats, lambda: memory.learn("sort", "quicksort", success=True)):
            with pytest.raises(SettingsError, match="check GRAPHMEM_DATABASE"):
                ask()


@pytest.mark.neo4j
def test_reads_go_to_readers_and_wait_for_what_was_written(
    neo4j: Found, caplog: pytest.LogCaptureFixture
) -> None:
    settings = Settings(user=neo4j.user, password=neo4j.password, count_reads=False)
    with Memory.open(neo4j.uri, namespace=f"test-{uuid4().hex}", settings=settings) as memory:
        memory.learn("sort a list", "quicksort", success=True, agent="ada")
        memory.recall("sort a list")  # embeds what is new, and writes that
        with caplog.at_level(logging.DEBUG, "neo4j.io"):
            memory.recall("sort a list")
            assert (
                caplog.text.count("count(*) AS nodes") <= 3
            )  # whether few texts are there: strategies, and tasks
            memory.context("sort a list")
            memory.strategies()
            memory.choose("sort a list", ["quicksort", "bubble sort"])
        begun = BEGIN.findall(caplog.text)
        assert begun
        assert not [options for options in begun if "'mode': 'r'" not in options]
        assert not [options for options in begun if "'bookmarks': [" not in options]
