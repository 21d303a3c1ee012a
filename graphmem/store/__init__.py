"""The engines behind one port. Only this package knows them."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote, urlsplit

from graphmem.config import Settings, default_folder
from graphmem.errors import SettingsError, StoreError
from graphmem.store.port import SCHEMA_VERSION, Capabilities, Row, Store, Transaction

__all__ = ["SCHEMA_VERSION", "Capabilities", "Row", "Store", "Transaction", "open_store"]

SERVER_SCHEMES = ("neo4j", "neo4j+s", "neo4j+ssc", "bolt", "bolt+s", "bolt+ssc")


def open_store(url: str | Path | None, settings: Settings) -> Store:
    """Open the engine that ``url`` names.

    A path or ``file:`` url is a folder of the embedded engine, ``memory:`` the embedded engine
    without disk, ``neo4j://`` and ``bolt://`` (also with ``+s`` and ``+ssc``) a server. None stands
    for ``settings.url``, else for a folder in the user's data directory. An engine is imported when
    it is first used.

    Raises:
        SettingsError: the url has an unknown scheme, or a server lacks a password.
        StoreError: the engine cannot be opened.
    """
    text = str(url if url is not None else settings.url or default_folder())
    scheme = text.partition(":")[0].lower() if ":" in text else ""
    if scheme in SERVER_SCHEMES and "://" in text:
        from graphmem.store.neo4j import Neo4jStore

        return Neo4jStore(text, settings)
    folder: Path | None
    if text == "memory:":
        folder = None
    elif scheme == "file":
        folder = Path(unquote(urlsplit(text).path))
    elif "://" in text:
        raise SettingsError(
            f"url {text!r}: unknown scheme; give a folder, file:, memory:, "
            "neo4j:// or bolt:// (with +s or +ssc)"
        )
    elif not text.strip():
        raise SettingsError("url is empty; give a folder, memory: or neo4j://host:port")
    else:
        folder = Path(text)
    try:
        from graphmem.store.embedded import EmbeddedStore
    except ImportError as error:
        if "static TLS" not in str(error):
            raise
        raise StoreError(
            "the embedded engine cannot be loaded after the libraries that this process loaded "
            "before (torch with scikit-learn, for instance); start Python with "
            "GLIBC_TUNABLES=glibc.rtld.optional_static_tls=16384"
        ) from error

    return EmbeddedStore(folder, settings)
