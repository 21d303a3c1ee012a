"""How a memory is opened for a search by meaning."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import TYPE_CHECKING

from graphmem.cli.options import Options
from graphmem.cli.printing import progress

if TYPE_CHECKING:
    from graphmem.memory import Memory

MANY = 200
"""Texts that take about a second to embed."""


def open_for_search(options: Options) -> Memory:
    """Return the memory; load meanwhile in a thread what a search for a text needs."""
    memory = options.memory()
    _load_beside(memory)
    for module in ("numpy", *(() if options.as_json else ("rich.console",))):
        import_module(module)
    embed_new_texts(memory, options)
    return memory


def embed_new_texts(memory: Memory, options: Options) -> None:
    """Embed texts without vectors, with a progress bar, if there are many, and a terminal."""
    if (
        sys.stderr.isatty()
        and not options.as_json
        and sum(memory.upkeep.pending().values()) >= MANY
    ):
        with progress("embedding what is new", options) as advance:
            if memory.store.try_writing():
                memory.upkeep.relink(on_progress=advance)


def _load_beside(memory: Memory) -> None:
    """Open the graph in a thread, and load the model there if the memory was embedded with it."""
    from graphmem.errors import GraphMemError
    from graphmem.search.embedding import minilm

    name = minilm.MiniLM.name

    def needed() -> bool:
        try:
            return memory.upkeep.embedded_with() == name
        except GraphMemError:
            return False  # the command meets it as well, and says so

    # Its threads help to link many texts, but it takes time to start them.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    if memory.settings.embedder == name:
        minilm.load_beside(needed)
