"""The command line: a thin layer over :class:`graphmem.Memory`."""

from graphmem.cli.main import main

__all__ = ["main"]
