"""A memory as a server of the Model Context Protocol (extra ``mcp``)."""

from graphmem.integrations.mcp.server import build
from graphmem.integrations.mcp.tools import Access

__all__ = ["Access", "build"]
