"""Seeding a memory from logs: a registry of formats, and the loop that learns their records.

A format is found by its name or by the content of a file. Others add theirs as entry points of
the group ``graphmem.formats`` whose objects are :class:`~graphmem.seeding.formats.Format`.
"""

from graphmem.seeding.formats import Format, Origin, Record, Refused, detect, formats
from graphmem.seeding.run import Progress, Refusal, SeedReport, seed
from graphmem.seeding.sources import Source, sources

__all__ = [
    "Format",
    "Origin",
    "Progress",
    "Record",
    "Refusal",
    "Refused",
    "SeedReport",
    "Source",
    "detect",
    "formats",
    "seed",
    "sources",
]
