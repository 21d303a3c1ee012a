"""Asks a model one question over HTTP; returns its answer as text, or the reason why there is none.

Any endpoint works that answers ``POST {base_url}/chat/completions`` as OpenAI's does. The reasons
never quote the response or the key.
"""

from __future__ import annotations

import json
import time
from typing import Any

from graphmem.errors import SettingsError
from graphmem.graph.graph import Graph
from graphmem.models.consolidation import ModelSettings

MAX_ANSWER = 1_000_000
"""Most bytes of an answer."""


class ChatError(Exception):
    """The model gave no usable answer; the text is the reason."""


def answer(graph: Graph, system: str, user: str) -> tuple[str | None, str]:
    """Return the answer of the model and its name; or None and why ("" if no model is set)."""
    if graph.settings.model_base_url is None or graph.settings.model_name is None:
        return None, ""
    try:
        model = ModelSettings.of(graph.settings)
        answered = ask(model, system, user)
    except (SettingsError, ChatError) as error:
        return None, str(error)
    key = model.key.get_secret_value() if model.key else ""
    return (None, "the answer holds the key") if key and key in answered else (answered, model.name)


def ask(model: ModelSettings, system: str, user: str) -> str:
    """Return the answer of the model."""
    import httpx  # it is only needed for a model

    body = {
        "model": model.name,
        "messages": [{"role": "system", "content": system}, {"role": "user", "content": user}],
    }
    headers = {"User-Agent": "graphmem", "Accept": "application/json"}
    if model.key is not None:
        headers["Authorization"] = f"Bearer {model.key.get_secret_value()}"
    # The timeout is for the whole answer: httpx alone would restart it at every byte.
    deadline, received = time.monotonic() + model.timeout, bytearray()
    try:
        with (
            httpx.Client(timeout=model.timeout, headers=headers) as client,
            client.stream("POST", f"{model.base_url}/chat/completions", json=body) as response,
        ):
            if response.status_code != 200:
                raise ChatError(f"HTTP status {response.status_code}")
            for chunk in response.iter_bytes():
                received += chunk
                if len(received) > MAX_ANSWER:
                    raise ChatError(f"the answer has more than {MAX_ANSWER:,} bytes")
                if time.monotonic() > deadline:
                    raise ChatError(f"no answer within {model.timeout:g} s")
    except httpx.TimeoutException:
        raise ChatError(f"no answer within {model.timeout:g} s") from None
    except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError) as error:
        raise ChatError(f"the endpoint cannot be asked ({type(error).__name__})") from None
    return _content(received)


def _content(body: bytearray) -> str:
    try:
        answered: Any = json.loads(body)
    except (ValueError, RecursionError):
        raise ChatError("the answer of the endpoint is not JSON") from None
    try:
        content = answered["choices"][0]["message"]["content"]
    except (KeyError, IndexError, TypeError):
        raise ChatError("the answer of the endpoint has no choices[0].message.content") from None
    if not isinstance(content, str):
        raise ChatError("the answer of the endpoint has no text in choices[0].message.content")
    return content
