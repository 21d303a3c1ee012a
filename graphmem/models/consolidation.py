"""Consolidation: the settings of a model, the answer that it must give, and the report."""

from __future__ import annotations

from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

import pydantic
from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator

from graphmem.config import Settings
from graphmem.errors import SettingsError, shown
from graphmem.models.fields import Input, Output
from graphmem.models.lessons import Verdict

MAX_RULES = 10
"""Most rules in one answer of a model."""
MAX_RULE_TEXT = 300
"""Most characters of one rule in an answer."""


class ModelSettings(BaseModel):
    """A model behind an endpoint with OpenAI's chat completions API.

    Raises:
        SettingsError: a field is wrong. The message never shows the key.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    base_url: str
    """``http://`` or ``https://``, without ``/chat/completions``, user or key."""
    name: str = Field(min_length=1, max_length=200)
    """The endpoint's name of the model."""
    key: SecretStr | None = None
    """Sent as a bearer token; None sends none."""
    timeout: float = Field(30.0, gt=0, le=3600, allow_inf_nan=False)
    """Seconds for the whole answer."""

    def __init__(self, **given: Any) -> None:
        try:
            super().__init__(**given)
        except pydantic.ValidationError as error:
            first = error.errors(include_url=False)[0]
            name = ".".join(str(part) for part in first["loc"])
            safe = name in ("name", "timeout")
            got = f" (got {shown(first['input'])})" if safe and first["type"] != "missing" else ""
            message = first["msg"].removeprefix("Value error, ")
            raise SettingsError(f"model {name}: {message}{got}") from None

    @classmethod
    def of(cls, settings: Settings) -> ModelSettings:
        """Return the model that the settings name.

        Raises:
            SettingsError: they name no model, or a setting is wrong.
        """
        if settings.model_base_url is None or settings.model_name is None:
            raise SettingsError(
                "no model is set; give GRAPHMEM_MODEL_BASE_URL and GRAPHMEM_MODEL_NAME, "
                "or consolidate without a model"
            )
        return cls(
            base_url=settings.model_base_url,
            name=settings.model_name,
            key=settings.model_key,
            timeout=settings.model_timeout,
        )

    @field_validator("base_url")
    @classmethod
    def _place(cls, url: str) -> str:
        try:
            parts = urlsplit(url.strip())
            host, _ = parts.hostname, parts.port
        except ValueError:
            raise ValueError("is not a url") from None
        if parts.scheme not in ("http", "https") or not host or not url.isprintable():
            raise ValueError("must be a url that begins with http:// or https://")
        if parts.username is not None or parts.password is not None:
            raise ValueError("must not hold a user or password; give the key as key")
        if parts.query or parts.fragment:
            raise ValueError("must end before /chat/completions, without ? or #")
        return url.strip().rstrip("/")

    @field_validator("key")
    @classmethod
    def _header(cls, key: SecretStr | None) -> SecretStr | None:
        value = key.get_secret_value() if key else ""
        if not value:
            return None
        if not value.isascii() or not value.isprintable() or " " in value:
            raise ValueError("must be printable ASCII characters without spaces")
        return key


class ProposedRule(Input):
    """A rule in a model's answer; ``episodes`` are the numbers of episodes in the prompt."""

    verdict: Verdict
    text: Annotated[str, Field(min_length=1, max_length=MAX_RULE_TEXT)]
    episodes: Annotated[tuple[int, ...], Field(max_length=1000)]


class ModelAnswer(Input):
    """The whole answer that a model must give."""

    rules: Annotated[tuple[ProposedRule, ...], Field(max_length=MAX_RULES)]


class ConsolidationReport(Output):
    """What a consolidation did.

    ``since`` counts the new episodes; consolidation is ``due`` from ``every`` new episodes on.
    ``done`` is false if it was neither due nor forced; nothing was written then. ``how`` is "model"
    if a model's answer was used, else "repetition"; ``reason`` then says why a requested model was
    not used. ``rules`` counts the general rules that repetition supports now, ``created`` the new
    ones, ``removed`` those that no longer hold. ``model_rules`` counts the rules of models,
    ``dropped`` the proposals without evidence. ``preferred`` counts the edges from anti-patterns to
    better alternatives.
    """

    due: bool
    done: bool
    since: int
    every: int
    how: Literal["repetition", "model"] | None = None
    reason: str | None = None
    rules: int = 0
    created: int = 0
    removed: int = 0
    model_rules: int = 0
    dropped: int = 0
    preferred: int = 0
