"""What the driver looks after: database, user, logins, where reads go, and that writes are seen."""

from __future__ import annotations

import logging
import re
from uuid import uuid4

import pytest
from neo4j import GraphDatabase
from pydantic import SecretStr

from graphmem import Memory, Settings
from graphmem.errors import AuthenticationError, SettingsError
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


WRONG = 60
"""Far more wrong passwords than a server takes before it lets a user wait, for five seconds."""


@pytest.mark.neo4j
def test_a_user_who_has_to_wait_is_told_so(neo4j: Found) -> None:
    with GraphDatabase.driver(neo4j.uri, auth=(neo4j.user, neo4j.password)) as driver:

        def administer(command: str) -> None:
            driver.execute_query(command, database_="system")

        administer("CREATE OR REPLACE USER barred SET PASSWORD 'abcdefgh' CHANGE NOT REQUIRED")
        try:
            settings = Settings(user="barred", password=SecretStr("not this"))
            said = [""]
            while "for some seconds" not in said[-1] and len(said) <= WRONG:
                with (
                    pytest.raises(AuthenticationError) as caught,
                    Memory.open(neo4j.uri, settings=settings) as memory,
                ):
                    memory.stats()
                said.append(str(caught.value))
            assert "refused the user or password" in said[1]
            assert "for some seconds" in said[-1]
            assert all("check GRAPHMEM_USER and GRAPHMEM_PASSWORD" in one for one in said[1:])
        finally:
            administer("DROP USER barred IF EXISTS")
