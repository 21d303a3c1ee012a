"""The engines behind one port. Only this package knows them."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote, urlsplit

from graphmem.config import Settings, default_folder
from graphmem.errors import SettingsError, StoreError, has_surrogate, shown
from graphmem.printable import without_password
from graphmem.store.port import SCHEMA_VERSION, Capabilities, Limits, Row, Rows, Store, Transaction

__all__ = [
    "SCHEMA_VERSION",
    "Capabilities",
    "Limits",
    "Row",
    "Rows",
    "Store",
    "Transaction",
    "open_store",
]

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
    named = url is None or (isinstance(url, str | Path) and "\0" not in str(url))
    if not named or has_surrogate(str(url)):
        said = shown(without_password(str(url)) if isinstance(url, str | Path) else url)
        raise SettingsError(f"url {said} is neither a url nor a folder")
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
            f"url {shown(without_password(text))}: unknown scheme; give a folder, file:, memory:, "
            "neo4j:// or bolt:// (with +s or +ssc)"
        )
    elif not isinstance(url, Path) and (scheme in SERVER_SCHEMES or without_password(text) != text):
        raise SettingsError(
            f"url {shown(without_password(text))} is neither a folder nor the url of a server; "
            "for instance neo4j://host:7687 (give user and password as settings)"
        )
    elif not text.strip():
        raise SettingsError("url is empty; give a folder, memory: or neo4j://host:port")
    else:
        folder = Path(text)
    if folder is not None:
        try:
            folder.exists()
        except OSError as error:  # a name that is too long
            said = shown(without_password(text))
            raise SettingsError(f"url {said} names no folder: {error.strerror}") from None
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
