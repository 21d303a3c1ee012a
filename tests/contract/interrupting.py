"""Interrupts a call in one of its transactions, so that tests can look at what it leaves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from graphmem import Memory


class Interruption:
    """Ends a transaction of a memory before it begins, as Ctrl-C does."""

    def __init__(self, memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
        self.left = 0  # in how many transactions it comes; 0: in none
        transact = memory.store.transact

        def cut(work: Callable[[Any], Any], **options: Any) -> Any:
            self.left -= 1
            if not self.left:
                raise KeyboardInterrupt
            return transact(work, **options)

        monkeypatch.setattr(memory.store, "transact", cut)
