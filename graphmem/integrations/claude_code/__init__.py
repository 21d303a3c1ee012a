"""Claude Code: its hooks give a session the memory, and learn how it went.

``installing`` writes the hooks into a file of settings, ``hooks`` answers them, ``transcript``
reads what a session did, and ``outcome`` reads what the user or a test says of it.
"""
