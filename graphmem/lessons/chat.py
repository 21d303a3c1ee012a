"""Asks a model one question over HTTP; returns its answer as text, or raises the reason.

Any endpoint works that answers ``POST {base_url}/chat/completions`` as OpenAI's does. The reasons
never quote the response or the key.
"""

from __future__ import annotations

import email.utils
import json
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import httpx

from graphmem.models.consolidation import ModelSettings

PAUSE = 0.5
"""Seconds before the second attempt, if the endpoint does not say."""
MAX_ANSWER = 1_000_000
"""Most bytes of an answer."""
ATTEMPTS = 2


class ChatError(Exception):
    """The model gave no usable answer; the text is the reason."""


class _Again(Exception):  # noqa: N818 - no error: what is done next is decided by the caller
    """A second attempt can help."""

    def __init__(self, reason: str, pause: float | None = None) -> None:
        super().__init__(reason)
        self.pause = pause


def ask(
    model: ModelSettings,
    system: str,
    user: str,
    *,
    sleep: Callable[[float], None] = time.sleep,
) -> str:
    """Return the answer of the model.

    A timeout, a lost connection, 429 and 5xx are tried once more, after as many seconds as the
    endpoint asks for (``Retry-After``) if these are within the timeout.

    Raises:
        ChatError: there is no usable answer.
    """
    reason = ""
    for attempt in range(1, ATTEMPTS + 1):
        try:
            return _content(_post(model, system, user))
        except _Again as again:
            reason = str(again)
            pause = min(PAUSE, model.timeout) if again.pause is None else again.pause
            if pause > model.timeout:
                raise ChatError(
                    f"{reason}, and the next attempt was to wait {pause:.0f} s, "
                    f"longer than the timeout of {model.timeout:g} s"
                ) from None
            if attempt < ATTEMPTS:
                sleep(pause)
    raise ChatError(f"{reason}, {ATTEMPTS} times")


def _post(model: ModelSettings, system: str, user: str) -> bytes:
    """Return the body of the answer, or raise the reason why there is none."""
    body = {
        "model": model.name,
        "messages": [{"role": "system", "content": system}, {"role": "user", "content": user}],
    }
    headers = {"User-Agent": "graphmem", "Accept": "application/json"}
    if model.key is not None:
        headers["Authorization"] = f"Bearer {model.key.get_secret_value()}"
    try:
        with httpx.Client(timeout=model.timeout, headers=headers) as client:
            return _read(client, f"{model.base_url}/chat/completions", body, model.timeout)
    except httpx.TimeoutException:
        raise _Again(f"no answer within {model.timeout:g} s") from None
    except httpx.TransportError as error:
        raise _Again(f"no connection or a broken one ({type(error).__name__})") from None
    except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError) as error:
        raise ChatError(f"the endpoint cannot be asked ({type(error).__name__})") from None


def _read(client: httpx.Client, url: str, body: dict[str, Any], timeout: float) -> bytes:
    """Return the body of the answer.

    The timeout is for the whole answer: httpx alone would restart it at every byte.
    """
    deadline = time.monotonic() + timeout
    with client.stream("POST", url, json=body) as response:
        _check_status(response)
        received = bytearray()
        for chunk in response.iter_bytes():
            received += chunk
            if len(received) > MAX_ANSWER:
                raise ChatError(f"the answer has more than {MAX_ANSWER:,} bytes")
            if time.monotonic() > deadline:
                raise _Again(f"no answer within {timeout:g} s")
        return bytes(received)


def _check_status(response: httpx.Response) -> None:
    status = response.status_code
    if status == 429 or status >= 500:
        raise _Again(f"HTTP status {status}", _pause(response.headers.get("Retry-After")))
    if status != 200:
        raise ChatError(f"HTTP status {status}")


def _pause(asked: str | None) -> float | None:
    """Return the seconds of a ``Retry-After`` header (a number or a date), else None."""
    if asked is None:
        return None
    if asked.strip().isdigit():
        return float(asked.strip()[:9])
    try:
        moment = email.utils.parsedate_to_datetime(asked)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(0.0, (moment - datetime.now(UTC)).total_seconds())


def _content(body: bytes) -> str:
    try:
        answer: Any = json.loads(body)
    except (ValueError, RecursionError):
        raise ChatError("the answer of the endpoint is not JSON") from None
    try:
        content = answer["choices"][0]["message"]["content"]
    except (KeyError, IndexError, TypeError):
        raise ChatError("the answer of the endpoint has no choices[0].message.content") from None
    if not isinstance(content, str):
        raise ChatError("the answer of the endpoint has no text in choices[0].message.content")
    return content
