"""Upkeep: proving, rebuilding, erasing, exporting and importing what a memory holds."""
