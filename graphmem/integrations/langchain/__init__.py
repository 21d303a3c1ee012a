"""A memory for agents of LangChain and graphs of LangGraph (extra ``langchain``)."""

try:
    import langchain.agents  # noqa: F401 - says what is missing
except ImportError as error:
    raise ImportError(
        f"graphmem.integrations.langchain needs LangChain ({error}): "
        "in a clone of graphmem: pip install -e '.[langchain]'"
    ) from error

from graphmem.integrations.langchain.middleware import GraphMemMiddleware
from graphmem.integrations.langchain.store import GraphMemStore

__all__ = ["GraphMemMiddleware", "GraphMemStore"]
