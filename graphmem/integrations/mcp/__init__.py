"""A memory as a server of the Model Context Protocol (extra ``mcp``)."""
