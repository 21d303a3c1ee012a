"""The engines behind one port. Only this package knows them."""

from __future__ import annotations

import os
import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

from graphmem.config import Settings, default_folder
from graphmem.errors import SettingsError, has_surrogate, shown
from graphmem.printable import without_password
from graphmem.store.port import Limits, Rows, Store

__all__ = ["Limits", "Rows", "Store", "open_store"]

_VARIABLE = re.compile(r"\$(\w+|\{[^}]*\})")
SERVER_SCHEMES = ("neo4j", "neo4j+s", "neo4j+ssc", "bolt", "bolt+s", "bolt+ssc")


def expanded(url: str) -> str:
    """Return a url whose folder has no variables of the environment, nor ~.

    Raises:
        SettingsError: the environment has no such variable.
    """
    if "://" in url:
        return url
    text = os.path.expandvars(url)
    if missing := _VARIABLE.search(text):
        raise SettingsError(f"url {shown(url)}: the environment has no {missing[0]}")
    return str(Path(text).expanduser()) if text.startswith("~") else text


def open_store(url: str | Path | None, settings: Settings) -> Store:
    """Open the engine that ``url`` names; import it only then."""
    if not isinstance(url, str | Path | None):
        raise SettingsError(f"url {shown(url)} is neither a url nor a folder")
    text = str(url if url is not None else settings.url or default_folder())
    if not isinstance(url, Path):
        text = expanded(text)
    masked = without_password(text)
    scheme = text.partition(":")[0].lower() if ":" in text else ""
    if scheme in SERVER_SCHEMES and "://" in text:
        from graphmem.store.neo4j import Neo4jStore

        return Neo4jStore(text, settings)
    if not text.strip():
        raise SettingsError("url is empty; give a folder, memory: or neo4j://host:port")
    wrong = "\0" in text or has_surrogate(text)
    secret = not isinstance(url, Path) and (scheme in SERVER_SCHEMES or masked != text)
    unknown = "://" in text and scheme != "file"
    if wrong or secret or unknown:
        what = "unknown scheme; " if unknown else ""
        raise SettingsError(
            f"url {shown(masked)}: {what}give a folder, file:, memory:, neo4j://host or "
            "bolt://host (with +s or +ssc; user and password as settings)"
        )
    folder = Path(unquote(urlsplit(text).path) if scheme == "file" else text)

    from graphmem.store.embedded import EmbeddedStore

    return EmbeddedStore(None if text == "memory:" else folder, settings)
