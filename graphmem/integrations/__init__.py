"""Ways to use a memory from other programs: each maps their calls to the facade.

Each is a module or package with an extra of its own. Nothing of graphmem imports it but its
command.
"""

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def extra(name: str) -> Iterator[None]:
    """Say how to install what is imported here, if it is missing."""
    try:
        yield
    except ImportError as error:
        remedy = f"in a clone of graphmem: pip install -e '.[{name}]'"
        raise ImportError(f"{error}; {remedy}") from error
