"""Ways to use a memory from other programs: each maps their calls to the facade.

Each is a module or package with an extra of its own. Nothing of graphmem imports it but its
command.
"""
