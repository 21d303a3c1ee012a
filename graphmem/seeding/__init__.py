"""Seeding a memory from logs: a registry of formats, and the loop that learns their records.

A format is looked up by its name or recognised from the content of a file. Packages add formats as
entry points of the group ``graphmem.formats`` that name a
:class:`~graphmem.seeding.formats.Format`.
"""

from graphmem.seeding.formats import (
    Format,
    Origin,
    Record,
    Refused,
    Unsettled,
    detect,
    formats,
    make_record,
    read_record,
)
from graphmem.seeding.maps import Map
from graphmem.seeding.reading import DamagedError, Limits, Values, read_lines
from graphmem.seeding.run import LogReader, Preview, Refusal, SeedReport, seed
from graphmem.seeding.sources import Logs, Source, sources

__all__ = [
    "DamagedError",
    "Format",
    "Limits",
    "LogReader",
    "Logs",
    "Map",
    "Origin",
    "Preview",
    "Record",
    "Refusal",
    "Refused",
    "SeedReport",
    "Source",
    "Unsettled",
    "Values",
    "detect",
    "formats",
    "make_record",
    "read_lines",
    "read_record",
    "seed",
    "sources",
]
