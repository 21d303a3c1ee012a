"""People: preferences, knowledge, and what agents may learn and read."""
