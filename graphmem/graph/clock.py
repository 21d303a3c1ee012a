"""The clock."""

from __future__ import annotations

import time


def now_millis() -> int:
    """Return the clock in milliseconds since the epoch."""
    return time.time_ns() // 1_000_000
