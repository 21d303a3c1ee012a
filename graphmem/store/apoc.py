"""The statements by which procedures are installed into a server (APOC Extended 5.26).

They are not in ``cypher/``, because they run in the database ``system`` or query the server itself;
no other engine has them.
"""

from __future__ import annotations

from graphmem.store.queries import Query

DATABASE = Query(
    "installing.database", "read", "CALL db.info() YIELD name RETURN name", checked=False
)
"""The database for which the procedures are installed."""
STORED = Query(
    "installing.stored",
    "read",
    "CALL apoc.custom.show($database) YIELD type, name, description, mode, statement, inputs, "
    "outputs RETURN type, name, description, mode, statement, inputs, outputs",
    checked=False,
)
"""The installed procedures, as stored in the database ``system``."""
REGISTERED = Query(
    "installing.registered",
    "read",
    "SHOW PROCEDURES YIELD name, description WHERE name STARTS WITH 'custom.graphmem.' "
    "RETURN name, description",
    checked=False,
)
"""The procedures that this server has registered so far."""
PUT = Query(
    "installing.put",
    "write",
    "CALL apoc.custom.installProcedure($signature, $statement, $database, $mode, $description)",
    checked=False,
)
"""Installs or replaces a procedure."""
DROP = Query(
    "installing.drop",
    "write",
    "CALL apoc.custom.dropProcedure($name, $database)",
    checked=False,
)
"""Removes a procedure."""


def attempt(name: str, inputs: int) -> Query:
    """Return a call of a procedure with nulls."""
    nulls = ", ".join(["null"] * inputs)
    return Query("installing.try", "write", f"CALL {name}({nulls})", checked=False)
