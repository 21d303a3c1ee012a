"""How long an attack goes on: short in every test run, long with ``make attack``."""

from __future__ import annotations

import contextlib
import os
import resource
from pathlib import Path

LONG = os.environ.get("GRAPHMEM_ATTACK") == "1"


def peak(name: str = "VmHWM") -> int:
    """Return the most megabytes that this process took; with ``VmRSS`` those that it takes now.

    The kernel's ``ru_maxrss`` has those of the process that started this one, too.
    """
    with contextlib.suppress(OSError):
        status = Path("/proc/self/status").read_text()
        return int(status.partition(f"{name}:")[2].split()[0]) // 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def rounds(short: int, long: int) -> int:
    return long if LONG else short
