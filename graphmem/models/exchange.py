"""What comes of importing and exporting files."""

from __future__ import annotations

from typing import Literal

from graphmem.models.fields import Output
from graphmem.models.reports import Rejection

FileFormat = Literal["sentinel", "jsonl"]


class ImportReport(Output):
    """The answer of an import: how many episodes were new, and how many were known already.

    ``kept`` names what the file held beside its episodes; it is kept as it was, and nothing is
    learned from it. ``refused`` are episodes that the memory refused (only for JSON lines, which
    are learned in several transactions; of a Sentinel file all are learned, or none).
    """

    file: str
    format: FileFormat
    created: int
    skipped: int
    kept: tuple[str, ...] = ()
    refused: tuple[Rejection, ...] = ()


class ExportReport(Output):
    """The answer of an export: how many episodes the file holds.

    ``derived`` names the lists that were derived from the memory, ``kept`` those that stand in the
    file as they were when it was imported.
    """

    file: str
    format: FileFormat
    episodes: int
    derived: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
