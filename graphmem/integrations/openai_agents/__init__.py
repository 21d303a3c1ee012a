"""A memory for agents of the OpenAI Agents SDK (extra ``openai-agents``).

Use :class:`GraphMemRunner` instead of the SDK's Runner: agents then ask the memory before they act,
and learn after it. :class:`GraphMemTracing` only records, from the traces of the SDK.
"""

try:
    import agents  # noqa: F401 - says early what is missing
except ImportError as error:
    raise ImportError(
        f"graphmem.integrations.openai_agents needs the OpenAI Agents SDK ({error}): "
        "in a clone of graphmem: pip install -e '.[openai-agents]'"
    ) from error

from graphmem.integrations.openai_agents.runner import GraphMemRunner
from graphmem.integrations.openai_agents.tracing import GraphMemTracing

__all__ = ["GraphMemRunner", "GraphMemTracing"]
