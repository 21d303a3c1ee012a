"""Settings: every constant that a user can change, and its source.

The environment sets each field as ``GRAPHMEM_<NAME>``; a file of settings comes after it.
``graphmem config`` shows the values in force and their sources.
"""

from __future__ import annotations

import os
import re
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal

import pydantic
from pydantic import Field, SecretStr, field_serializer, field_validator
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from graphmem.errors import SettingsError, shown
from graphmem.printable import Url, without_password

DEFAULT_NAMESPACE = "default"

KEPT = (
    *("success_threshold", "z", "prior_successes", "prior_failures"),
    *("established_above", "refuted_below", "co_occurrence_half_life_days"),
    *("alpha", "gamma", "min_events", "crystallize_above", "decay_rate", "decay_strength"),
    *("min_occurrences", "heuristic_above", "anti_pattern_failures", "consolidate_every"),
)
"""Settings that shape learning: a namespace keeps those of its first write."""
SECRETS = ("password", "model_key")
URLS = ("url", "model_base_url")
FILE, PROJECT = "graphmem.toml", "pyproject.toml"
"""Names of a file of settings; in the second one, they are the table ``[tool.graphmem]``."""
_TABLE = re.compile(rb"(?m)^\s*\[\s*tool\s*\.\s*graphmem\s*\]")


class Settings(BaseSettings):
    """The settings of a memory.

    Raises:
        SettingsError: a setting is wrong, or an argument has an unknown name; the message names it,
            its value and its source.
    """

    model_config = SettingsConfigDict(
        env_prefix="GRAPHMEM_", extra="forbid", frozen=True, validate_default=True
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
    impersonated_user: str | None = Field(
        None, min_length=1, description="server: user in whose place statements run (Enterprise)"
    )

    success_threshold: float = Field(
        0.5, ge=0, le=1, description="a score of at least this is a success, if no success is given"
    )
    z: float = Field(
        1.96,
        gt=0,
        le=10,
        allow_inf_nan=False,
        description="normal quantile of the Wilson bounds (Wilson 1927; 1.96 is 95 %)",
    )
    prior_successes: float = Field(
        1.0, gt=0, allow_inf_nan=False, description="Beta prior of the mean (Laplace: 1)"
    )
    prior_failures: float = Field(
        1.0, gt=0, allow_inf_nan=False, description="Beta prior of the mean (Laplace: 1)"
    )
    established_above: float = Field(
        0.6, ge=0, le=1, description="established: the lower bound is over this"
    )
    refuted_below: float = Field(
        0.4, ge=0, le=1, description="refuted: the upper bound is under this"
    )
    co_occurrence_half_life_days: float = Field(
        90.0,
        gt=0,
        allow_inf_nan=False,
        description="days after which a co-occurrence weighs half; kept in the memory",
    )

    alpha: float = Field(
        0.1, gt=0, le=1, allow_inf_nan=False, description="TD(0): learning rate in (0, 1]"
    )
    gamma: float = Field(
        0.95, ge=0, le=1, allow_inf_nan=False, description="TD(0): discount of what comes next"
    )
    record_transitions: bool = Field(
        True, description="store every TD update as a fact, so that values can be derived again"
    )
    min_events: int = Field(3, ge=1, description="crystallize: trials that a policy needs")
    crystallize_above: float = Field(
        0.6, ge=0, lt=1, description="crystallize: the lower bound must be over this"
    )
    decay_rate: float = Field(
        0.1, ge=0, le=10, allow_inf_nan=False, description="values: exponent of the decay by days"
    )
    decay_strength: float = Field(
        0.5, ge=0, le=10, allow_inf_nan=False, description="values: how much confidence slows decay"
    )

    min_occurrences: int = Field(3, ge=1, description="heuristics: trials that one needs")
    heuristic_above: float = Field(
        0.5, ge=0, lt=1, description="heuristics: the posterior mean must be over this"
    )
    anti_pattern_failures: int = Field(
        2, ge=1, description="anti-patterns: failures with the same class of error that one needs"
    )

    consolidate_every: int = Field(
        20, ge=1, description="consolidate: episodes after which it is due again"
    )
    model_base_url: str | None = Field(
        None, description="consolidate: url of a model, without /chat/completions"
    )
    model_name: str | None = Field(None, description="consolidate: the name of the model")
    model_key: SecretStr | None = Field(None, description="consolidate: the key of the model")
    model_timeout: float = Field(
        30.0, gt=0, le=3600, allow_inf_nan=False, description="consolidate: seconds for an answer"
    )

    embedder: str = Field(
        "minilm",
        min_length=1,
        description="what turns texts into vectors: minilm, hashing, "
        "sentence-transformers:<name or path> or what a package offers; "
        "`graphmem embedders` lists them; a memory keeps the one it was built with",
    )

    relevance_floor: float | None = Field(
        None,
        ge=0,
        le=1,
        description="recall, context: cosine below which nothing is relevant; default: what "
        "unrelated texts hardly ever reach, which depends on the embedder and the number of texts",
    )
    recall_half_life_days: float = Field(
        90.0,
        gt=0,
        allow_inf_nan=False,
        description="recall: days without a trial after which a strategy counts half",
    )
    recall_z: float = Field(
        1.0,
        ge=0,
        le=10,
        allow_inf_nan=False,
        description="recall: normal quantile of the lower bound (1: one standard error)",
    )
    recall_variety: float = Field(
        0.3,
        ge=0,
        lt=1,
        allow_inf_nan=False,
        description="recall: weight of being unlike strategies selected before (0: score alone)",
    )

    choice_sharpness: float = Field(
        4.0,
        ge=0.01,
        le=1_000,
        allow_inf_nan=False,
        description="choose: factor of the counts in Thompson sampling "
        "(with a higher one it explores less)",
    )

    listen_seconds: float = Field(
        1.0,
        gt=0,
        le=86_400,
        allow_inf_nan=False,
        description="events: seconds between checks for writes of other processes",
    )

    count_reads: bool = Field(
        True, description="count how often policies and strategies are read, and when last"
    )

    max_depth: int = Field(
        150, ge=10, le=190, description="logs, imports: levels of nesting in one record"
    )
    max_text: int = Field(
        12_000_000,
        ge=1_000,
        le=1_000_000_000,
        description="logs, imports: bytes of one text; enough for the longest text that is kept",
    )
    max_record: int = Field(
        16_000_000,
        ge=10_000,
        le=1_000_000_000,
        description="logs, imports: bytes of one record; it may hold one value for each 16 bytes",
    )
    max_file: int = Field(
        1_000_000_000, ge=10_000, description="logs, imports: bytes of one file, unpacked"
    )
    max_ratio: int = Field(
        200,
        ge=2,
        description="logs, imports: how many times its size a packed file may become "
        "(if that is over 10 MB)",
    )

    query_seconds: float = Field(
        60.0,
        gt=0,
        le=86_400,
        allow_inf_nan=False,
        description="query: seconds after which Cypher of your own is stopped",
    )
    query_rows: int = Field(
        10_000, ge=1, le=10_000_000, description="query: rows of Cypher of your own; more are cut"
    )
    query_megabytes: int = Field(
        1024,
        ge=64,
        le=1_048_576,
        description="query, embedded: memory for Cypher of your own, beyond that for the graph",
    )

    durability: Literal["normal", "full"] = Field(
        "normal",
        description="embedded: normal survives the death of the process, full also of the machine",
    )
    wait: float = Field(
        5.0, ge=0, allow_inf_nan=False, description="embedded: seconds to wait for another writer"
    )
    lease_idle: float = Field(
        200.0,
        ge=0,
        allow_inf_nan=False,
        description="embedded: milliseconds after its last write when a process gives the lease "
        "back; if others wait, this long after it got the lease",
    )
    snapshot_seconds: float = Field(
        5.0,
        ge=0,
        allow_inf_nan=False,
        description="embedded: a reader beside a writer takes a new snapshot after this many",
    )
    connect_timeout: float = Field(
        10.0, gt=0, allow_inf_nan=False, description="server: seconds to wait for a connection"
    )
    retry_seconds: float = Field(
        30.0,
        ge=0,
        allow_inf_nan=False,
        description="server: seconds for which a call tries again",
    )

    def __init__(self, **given: Any) -> None:
        try:
            super().__init__(**given)
        except pydantic.ValidationError as error:
            first = error.errors(include_url=False)[0]
            name = ".".join(str(part) for part in first["loc"])
            where, remedy = f"GRAPHMEM_{name.upper()}", "`graphmem config` shows all settings"
            if name in given:
                where = name
            elif not from_environment(name):
                where, remedy = f"{name} in {settings_file()}", "change it there, or take it out"
            problem = first["msg"].removeprefix("Value error, ")
            raise SettingsError(
                f"setting {where}: {problem}{_got(name, first['input'])}; {remedy}"
            ) from None

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Return where settings come from, the first one first."""
        del dotenv_settings, file_secret_settings
        file = settings_file()
        if file is None:
            return init_settings, env_settings
        return init_settings, env_settings, _File(settings_cls, file)

    @field_validator(*URLS)
    @classmethod
    def _url(cls, url: str | None) -> str | None:
        return None if url is None else Url(url)

    @field_serializer(*URLS, when_used="json")
    def _without_password(self, url: str | None) -> str | None:
        return None if url is None else without_password(url)

    @field_validator("namespace")
    @classmethod
    def _printable(cls, namespace: str) -> str:
        if namespace != namespace.strip() or not namespace.isprintable():
            raise ValueError("must be printable and have no space at its ends")
        return namespace

    @property
    def bounds(self) -> dict[str, Any]:
        """The parameters of procedures that compute means, Wilson bounds or a status."""
        return {
            "z": self.z,
            "prior_successes": self.prior_successes,
            "prior_failures": self.prior_failures,
            "established": self.established_above,
            "refuted": self.refuted_below,
        }

    @property
    def half_life_ms(self) -> float:
        """The half-life of co-occurrence weights in milliseconds."""
        return self.co_occurrence_half_life_days * 86_400_000.0


def _got(name: str, value: object) -> str:
    """Return the given value of a setting, if it is no secret, or the setting that may be meant.

    The value of an unknown setting is not shown: it may be a secret under a misspelt name.
    """
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


def settings_file() -> Path | None:
    """Return the file of settings for the current folder, if there is one.

    The search goes upwards, to the root of the repository, else to the user's home. Elsewhere only
    the folder itself counts, because other users may write to those above it.
    """
    try:
        return _nearest(Path.cwd(), Path.home())
    except (OSError, RuntimeError):  # the folder is gone, unreadable, or nobody's
        return None


def _nearest(here: Path, home: Path) -> Path | None:
    nearest = None
    for folder in (here, *here.parents):
        nearest = nearest or _file_in(folder)
        if folder == home or (folder / ".git").exists():
            return nearest
    return _file_in(here)


def _file_in(folder: Path) -> Path | None:
    own, project = folder / FILE, folder / PROJECT
    if own.is_file():
        return own
    return project if project.is_file() and _TABLE.search(project.read_bytes()) else None


class _File(TomlConfigSettingsSource):
    """The settings in a file."""

    def _read_file(self, file_path: Any) -> dict[str, Any]:
        """Return the settings in a file, with folders relative to it.

        Raises:
            SettingsError: it cannot be read, is not TOML, or holds a secret.
        """
        try:
            found = super()._read_file(file_path)
        except (OSError, ValueError) as error:
            raise SettingsError(f"settings in {file_path} cannot be read: {error}") from None
        if file_path.name == PROJECT:
            found = found["tool"]["graphmem"]
        for name, value in found.items():
            hidden = isinstance(value, str) and without_password(value) != value
            if name in SECRETS or (name in URLS and hidden):
                raise SettingsError(
                    f"setting {name} in {file_path}: a file may not hold passwords or keys; "
                    f"take it out, and set GRAPHMEM_{_secret_of(name).upper()}"
                )
        if isinstance(url := found.get("url"), str):
            found["url"] = _seen_from(file_path.parent, url)
        return found


def _secret_of(name: str) -> str:
    return {"url": "password", "model_base_url": "model_key"}.get(name, name)


def _seen_from(folder: Path, url: str) -> str:
    """Return a url whose folder is relative to a file, not to the current folder."""
    scheme, colon, path = url.partition(":")
    if "://" in url or url == "memory:" or not url.strip():
        return url
    if colon and scheme.lower() == "file":
        return f"file:{folder / path}"
    return str(folder / Path(url).expanduser())


def default_folder() -> Path:
    """Return the folder of the default memory, in the user's data directory."""
    from platformdirs import user_data_path

    return user_data_path("graphmem", appauthor=False) / "memory.graph"
