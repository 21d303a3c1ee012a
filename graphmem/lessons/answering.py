"""Asks the model of the settings, if there is one, for a text."""

from __future__ import annotations

from graphmem.errors import SettingsError
from graphmem.graph.graph import Graph
from graphmem.models.consolidation import ModelSettings


def answer(graph: Graph, system: str, user: str) -> tuple[str | None, str]:
    """Return the answer of the model and its name; or None and why ("" if no model is set)."""
    if graph.settings.model_base_url is None or graph.settings.model_name is None:
        return None, ""
    from graphmem.lessons import chat  # imports httpx, which is only needed for a model

    try:
        model = ModelSettings.of(graph.settings)
        answered = chat.ask(model, system, user)
    except (SettingsError, chat.ChatError) as error:
        return None, str(error)
    key = model.key.get_secret_value() if model.key else ""
    return (None, "the answer holds the key") if key and key in answered else (answered, model.name)
