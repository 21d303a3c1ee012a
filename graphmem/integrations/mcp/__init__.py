"""A memory as a server of the Model Context Protocol (extra ``mcp``).

``answers`` has what tools return, ``tools`` the tools, ``server`` puts them together, and
``serving`` runs a server over standard input and output, or over HTTP.
"""

from graphmem.integrations.mcp.server import build
from graphmem.integrations.mcp.tools import Access

__all__ = ["Access", "build"]
