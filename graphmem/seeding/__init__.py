"""Seeding a memory from logs: the formats of logs, and the loop that learns their records.

A format is looked up by its name or recognised from the content of a file.
"""

from graphmem.seeding.formats import Refused, formats
from graphmem.seeding.maps import Map
from graphmem.seeding.reading import Limits
from graphmem.seeding.run import LogReader, Preview, Refusal, SeedReport, seed
from graphmem.seeding.sources import Logs, Source, sources

__all__ = [
    "Limits",
    "LogReader",
    "Logs",
    "Map",
    "Preview",
    "Refusal",
    "Refused",
    "SeedReport",
    "Source",
    "formats",
    "seed",
    "sources",
]
