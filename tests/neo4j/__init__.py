"""How a real Neo4j 5.26 is started: for tests, and by ``python -m tests.neo4j`` for people."""

if __name__ == "neo4j":  # tests/ itself is on sys.path, and this folder hides the driver
    raise ImportError(
        "tests/neo4j was imported as 'neo4j'; import it as 'tests.neo4j' from the repository root "
        "(pytest needs tests/__init__.py for that)"
    )
