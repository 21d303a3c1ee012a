"""Claude Code: its hooks give a session the memory, and learn how it went."""
