"""Reports of imports and exports of files."""

from __future__ import annotations

from graphmem.kinds import ExportFormat, FileFormat
from graphmem.models.fields import Output
from graphmem.models.reports import Rejection


class ImportReport(Output):
    """The answer of an import: how many episodes were new, and how many already known.

    ``kept`` names the other content of the file, which is stored unchanged; nothing is learned from
    it. ``refused`` holds the episodes that the memory refused. Only JSON lines can have some,
    because several transactions learn them; a Sentinel file is learned as a whole or not at all.
    """

    file: str
    format: FileFormat
    created: int
    skipped: int
    kept: tuple[str, ...] = ()
    refused: tuple[Rejection, ...] = ()
    abandoned: int = 0
    """New attempts without an outcome."""
    levels: int = 0
    """New levels."""
    entries: int = 0
    """New entries of levels."""
    lenses: int = 0
    """New lenses on levels."""


class ExportReport(Output):
    """The answer of an export: how many episodes the file holds, or how many nodes and edges.

    ``derived`` names the lists that come from the memory, ``kept`` the imported ones that are
    written back unchanged.
    """

    file: str
    format: ExportFormat
    episodes: int = 0
    derived: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    abandoned: int = 0
    """Attempts without an outcome, which only JSON lines can hold."""
    levels: int = 0
    entries: int = 0
    lenses: int = 0
    """Levels, their entries and lenses, which only JSON lines can hold."""
    nodes: int = 0
    edges: int = 0
    """Nodes and edges, in GraphML, in Mermaid and in tables for Neo4j."""
