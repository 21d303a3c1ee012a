"""Settings: every constant that a user can change, and its source.

The environment sets each field as ``GRAPHMEM_<NAME>``; a file of settings comes after it.
``graphmem doctor settings`` shows the values in force and their sources.
"""

from __future__ import annotations

import os
import warnings
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

import pydantic
from pydantic import Field, SecretStr, field_serializer, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict, TomlConfigSettingsSource

from graphmem.errors import SettingsError, shown
from graphmem.printable import Url, without_password

DEFAULT_NAMESPACE = "default"

KEPT = (
    *("success_threshold", "z", "co_occurrence_half_life_days", "alpha", "gamma", "min_events"),
    *("crystallize_above", "min_occurrences", "anti_pattern_failures", "consolidate_every"),
)
"""Settings that shape learning: a namespace keeps those of its first write."""
SECRETS = ("password", "model_key")
URLS = ("url", "model_base_url")
FILE = "graphmem.toml"  # the file of settings, in the current folder
_OTHERS = ("require_", "test_", "bench_", "attack", "neo4j_cache", "node_cache", "complete")
"""How variables begin that only the tests read."""


class Settings(BaseSettings):
    """The settings of a memory.

    Raises:
        SettingsError: a setting is wrong, or an argument has an unknown name; the message names it,
            its value and its source.
    """

    model_config = SettingsConfigDict(
        env_prefix="GRAPHMEM_",
        extra="forbid",
        frozen=True,
        validate_default=True,
        allow_inf_nan=False,
    )

    url: str | None = Field(
        None,
        description="where the memory is: a folder, file:, memory:, neo4j:// or bolt://; "
        "default: a folder in the user's data directory",
    )
    namespace: str = Field(
        DEFAULT_NAMESPACE, min_length=1, max_length=200, description="namespace within the memory"
    )
    user: str = Field("neo4j", description="user name on a server")
    password: SecretStr | None = Field(None, description="password on a server")
    database: str | None = Field(None, description="database on a server (default: its own)")
    success_threshold: float = Field(
        0.5, ge=0, le=1, description="a score of at least this is a success, if no success is given"
    )
    z: float = Field(
        1.96,
        gt=0,
        le=10,
        description="normal quantile of the Wilson bounds (Wilson 1927; 1.96 is 95 %)",
    )
    co_occurrence_half_life_days: float = Field(
        90.0, gt=0, description="days after which a co-occurrence weighs half; kept in the memory"
    )
    alpha: float = Field(0.1, gt=0, le=1, description="TD(0): learning rate in (0, 1]")
    gamma: float = Field(0.95, ge=0, le=1, description="TD(0): discount of what comes next")
    record_transitions: bool = Field(
        True, description="store every TD update as a fact, so that values can be derived again"
    )
    min_events: int = Field(3, ge=1, description="crystallize: trials that a policy needs")
    crystallize_above: float = Field(
        0.6, ge=0, lt=1, description="crystallize: the lower bound must be over this"
    )
    min_occurrences: int = Field(3, ge=1, description="heuristics: trials that one needs")
    anti_pattern_failures: int = Field(
        2, ge=1, description="anti-patterns: failures with the same class of error that one needs"
    )
    consolidate_every: int = Field(
        20, ge=1, description="consolidate: episodes after which it is due again"
    )
    model_base_url: str | None = Field(
        None, description="consolidate: url of a model, without /chat/completions"
    )
    model_name: str | None = Field(
        None, min_length=1, max_length=200, description="consolidate: the name of the model"
    )
    model_key: SecretStr | None = Field(None, description="consolidate: the key of the model")
    model_timeout: float = Field(
        30.0, gt=0, le=3600, description="consolidate: seconds for an answer"
    )
    embedder: str = Field(
        "minilm",
        min_length=1,
        description="what turns texts into vectors: minilm, hashing, wordllama or "
        "sentence-transformers:<name or path>; `graphmem doctor embedders` lists them; a memory "
        "keeps the one it was built with",
    )
    relevance_floor: float | None = Field(
        None,
        ge=0,
        le=1,
        description="recall, context: cosine below which nothing is relevant; default: what "
        "unrelated texts hardly ever reach, which depends on the embedder and the number of texts",
    )
    choice_sharpness: float = Field(
        3.0,
        ge=0.01,
        le=1_000,
        description="choose: factor of the counts in Thompson sampling "
        "(with a higher one it explores less)",
    )
    count_reads: bool = Field(
        True, description="count how often policies and strategies are read, and when last"
    )
    keep: str | None = Field(
        None,
        pattern="^[1-9][0-9]* (episodes|days)$",
        description="forget what is beyond it while learning, once an hour: '10000 episodes' (the "
        "latest) or '365 days'; default: keep everything",
    )
    mask_secrets: bool = Field(
        False,
        description="store no keys and tokens of known shapes in what is learned, told or put into "
        "levels; prompts never have any",
    )
    query_seconds: float = Field(
        60.0,
        gt=0,
        le=86_400,
        description="query: seconds after which Cypher of your own is stopped",
    )
    query_rows: int = Field(
        10_000, ge=1, le=10_000_000, description="query: rows of Cypher of your own; more are cut"
    )
    durability: Literal["normal", "full"] = Field(
        "normal",
        description="embedded: normal survives the death of the process, full also of the machine",
    )
    wait: float | None = Field(
        None,
        ge=0,
        description="seconds to wait for another writer (embedded; default: 5), or for a server "
        "that is away (default: 30)",
    )

    def __init__(self, **given: Any) -> None:
        try:
            super().__init__(**given)
        except pydantic.ValidationError as error:
            first = error.errors(include_url=False)[0]
            name = ".".join(str(part) for part in first["loc"])
            where, remedy = name, "`graphmem doctor settings` shows all settings"
            if name not in given and from_environment(name):
                where = f"GRAPHMEM_{name.upper()}"
            elif name not in given:
                where, remedy = f"{name} in {settings_file()}", "change it there, or take it out"
            problem = first["msg"].removeprefix("Value error, ")
            raise SettingsError(
                f"setting {where}: {problem}{_got(name, first['input'])}; {remedy}"
            ) from None
        for variable in os.environ:
            if variable.startswith("GRAPHMEM_"):
                _check_name(variable)

    @classmethod
    def settings_customise_sources(  # type: ignore[override] # pydantic names all arguments
        cls, settings_cls: type[BaseSettings], **sources: Any
    ) -> tuple[Any, ...]:
        """Return where settings come from, the first one first."""
        return sources["init_settings"], sources["env_settings"], _read_file(settings_cls)

    @field_validator(*URLS)
    @classmethod
    def _url(cls, url: str | None) -> str | None:
        return None if url is None else Url(url)

    @field_validator("model_base_url")
    @classmethod
    def _place_of_model(cls, url: str | None) -> str | None:
        if url is None:
            return None
        try:
            parts = urlsplit(url.strip())
            host, _ = parts.hostname, parts.port
        except ValueError:
            raise ValueError("is not a url") from None
        if parts.scheme not in ("http", "https") or not host or not url.isprintable():
            raise ValueError("must be a url that begins with http:// or https://")
        if parts.username is not None or parts.password is not None:
            raise ValueError("must not hold a user or password; give the key as model_key")
        if parts.query or parts.fragment:
            raise ValueError("must end before /chat/completions, without ? or #")
        return Url(url.strip().rstrip("/"))

    @field_validator("model_key")
    @classmethod
    def _header(cls, key: SecretStr | None) -> SecretStr | None:
        value = key.get_secret_value() if key else ""
        if not value.isascii() or not value.isprintable() or " " in value:
            raise ValueError("must be printable ASCII characters without spaces")
        return key if value else None

    @field_serializer(*URLS, when_used="json")
    def _without_password(self, url: str | None) -> str | None:
        return None if url is None else without_password(url)

    @field_validator("namespace")
    @classmethod
    def _printable(cls, namespace: str) -> str:
        if namespace != namespace.strip() or not namespace.isprintable():
            raise ValueError("must be printable and have no space at its ends")
        return namespace


@cache
def _check_name(variable: str) -> None:
    name = variable.removeprefix("GRAPHMEM_").lower()
    if name not in Settings.model_fields and not name.startswith(_OTHERS):
        near = get_close_matches(name, Settings.model_fields, 1)
        remedy = "`graphmem doctor settings` shows all settings"
        remedy = f"did you mean GRAPHMEM_{near[0].upper()}?" if near else remedy
        warnings.warn(f"{variable} sets nothing; {remedy}", stacklevel=4)


def _got(name: str, value: object) -> str:
    """Return the value of a setting; not of an unknown one, which may be a misspelt secret."""
    if name in SECRETS:
        return " (got a secret)"
    if name not in Settings.model_fields:
        near = get_close_matches(name.lower().removeprefix("graphmem_"), Settings.model_fields, 1)
        return f" (did you mean {near[0]}?)" if near else ""
    if name in URLS:  # it may hold a password
        value = without_password(value) if isinstance(value, str) else "no text"
    return f" (got {shown(value)})"


def from_environment(name: str) -> bool:
    """Return whether the environment has a setting."""
    return any(variable.lower() == f"graphmem_{name}" for variable in os.environ)


def settings_file() -> Path:
    """Return the path of the file of settings; it need not be there."""
    return Path(FILE).absolute()


def _read_file(settings: type[BaseSettings]) -> TomlConfigSettingsSource:
    """Return the settings in the file of settings; none where there is no file."""
    try:
        source = TomlConfigSettingsSource(settings, Path(FILE))
    except (OSError, ValueError) as error:
        raise SettingsError(f"settings in {settings_file()} cannot be read: {error}") from None
    for name, value in source.toml_data.items():
        hidden = isinstance(value, str) and without_password(value) != value
        secret = {"url": "password", "model_base_url": "model_key"}.get(name, name)
        if name in SECRETS or (name in URLS and hidden):
            raise SettingsError(
                f"setting {name} in {settings_file()}: a file may not hold passwords or keys; "
                f"take it out, and set GRAPHMEM_{secret.upper()}"
            )
    return source


def default_folder() -> Path:
    """Return the folder of the default memory, in the user's data directory."""
    from platformdirs import user_data_path

    return user_data_path("graphmem", appauthor=False) / "memory.graph"
