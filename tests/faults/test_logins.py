"""Who may not log in is told so, and what to do."""

from __future__ import annotations

import pytest
from neo4j import GraphDatabase
from pydantic import SecretStr

from graphmem import Memory, Settings
from graphmem.errors import AuthenticationError
from tests.neo4j.server import Found

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
