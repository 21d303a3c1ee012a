"""A store of LangGraph whose items are entries of levels.

A namespace is a level, and an item is an entry with its key. The store holds no state: one process
finds what another one put.
"""

from __future__ import annotations

import asyncio
import operator
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any, Literal
from urllib.parse import quote, unquote

from langgraph.store.base import (
    BaseStore,
    GetOp,
    IndexConfig,
    Item,
    ListNamespacesOp,
    MatchCondition,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
    TTLConfig,
)
from langgraph.store.base.embed import get_text_at_path, tokenize_path

from graphmem.async_memory import AsyncMemory
from graphmem.errors import NotFoundError, ValidationError
from graphmem.graph.arguments import MOST, check_text
from graphmem.ids import entry_id
from graphmem.integrations.runs import memory_of
from graphmem.memory import Memory
from graphmem.models.levels import Entry, Found, LevelUpkeep, Tags

WHOLE = "$"
"""The path of the whole item."""
UNSEARCHED = "unsearched"
"""The tag of items that are not searched by meaning."""
EMPTY = "%"
"""What an empty key is called; no other key is."""
_KEPT = LevelUpkeep(decay=0, prune=0, dedup=None)
"""Items stay until they expire, or are deleted."""
_OWNER = "collective"

Namespace = tuple[str, ...]


class GraphMemStore(BaseStore):
    """A store of LangGraph in a memory: ``create_agent(..., store=GraphMemStore(memory))``.

    Each namespace is a level for all to read: ``("users", "17")`` is the level
    ``collective:store:users:17``. Items are found by meaning with the embedder of the memory,
    without any setting. Without words, a search gives the latest first. A namespace is listed as
    long as it has items.

    In a batch, what is read is read before anything is written. Each write is durable by itself.
    Times to live are kept: what has expired is not there any more, and ``levels.maintain`` (or
    ``levels.start``) removes it. Values are JSON.

    Args:
        memory: a Memory or an AsyncMemory; both serve calls of both kinds.
        name: the name of the store, which is part of the names of its levels: a memory may have
            several stores.
        index: ``{"fields": [...]}``: which fields are searched, as one text; default: the whole
            item. False: no search by meaning.
        ttl: how long items stay, in LangGraph's form; ``sweep_interval_minutes`` is not used.

    Raises:
        ValidationError: an argument is wrong.
    """

    supports_ttl = True

    __slots__ = ("_fields", "_memory", "_root", "ttl_config")

    def __init__(
        self,
        memory: Memory | AsyncMemory,
        *,
        name: str = "store",
        index: IndexConfig | Literal[False] | None = None,
        ttl: TTLConfig | None = None,
    ) -> None:
        super().__init__()
        check_text("name", name)
        self._memory = memory_of(memory)
        self._root = f"{_OWNER}:{_quoted('name', name)}"
        self._fields = _fields(index)
        self.ttl_config = ttl

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Do several operations, reading ones first; see :class:`BaseStore`.

        Raises:
            ValidationError: a namespace, key or value cannot be stored.
        """
        wanted = list(ops)
        results: list[Result] = [self._read(op) for op in wanted]
        puts = {(op.namespace, op.key): op for op in wanted if isinstance(op, PutOp)}
        for op in puts.values():
            self._put(op)
        return results

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Do what :meth:`batch` does, in a worker thread."""
        return await asyncio.to_thread(self.batch, list(ops))

    def _read(self, op: Op) -> Result:
        if isinstance(op, GetOp):
            entry = self._entry(self._level(op.namespace), op.key)
            if entry is not None and op.refresh_ttl:
                self._refresh([entry])
            return None if entry is None else Item(**self._item(entry))
        if isinstance(op, SearchOp):
            return self._search(op)
        if isinstance(op, ListNamespacesOp):
            return self._namespaces(op)
        if isinstance(op, PutOp):
            return None
        raise ValidationError("ops", op, "is no operation of a store")

    def _search(self, op: SearchOp) -> list[SearchItem]:
        if op.offset < 0:
            raise ValidationError("offset", op.offset, "must be a whole number from 0")
        levels = self._levels(op.namespace_prefix) if op.limit > 0 else []
        if not levels:
            return []
        most = MOST if op.filter else min(MOST, op.offset + op.limit)
        entries = self._search_levels(levels, op.query, most)
        if op.filter:
            entries = [entry for entry in entries if _fits(_value(entry), op.filter)]
        page = entries[op.offset : op.offset + op.limit]
        if op.refresh_ttl:
            self._refresh(page)
        return [SearchItem(**self._item(entry), score=entry.similarity) for entry in page]

    def _search_levels(self, levels: Sequence[str], query: str | None, most: int) -> list[Found]:
        """Return the items of levels; indexed ones near to a query come first."""
        recall = self._memory.levels.recall
        if not query or not query.strip() or self._fields is None:
            return recall(levels=levels, limit=most)
        unsearched = Tags(any_of=(UNSEARCHED,))
        near = recall(query, levels=levels, tags=~unsearched, limit=most)
        left = most - len(near)
        return [*near, *(recall(levels=levels, tags=unsearched, limit=left) if left else ())]

    def _namespaces(self, op: ListNamespacesOp) -> list[Namespace]:
        there = (
            self._namespace(level.name)
            for level in self._memory.levels.map().levels
            if level.entries and level.name.startswith(f"{self._root}:")
        )
        fitting = {
            namespace[: op.max_depth]
            for namespace in there
            if all(_matches(condition, namespace) for condition in op.match_conditions or ())
        }
        return sorted(fitting)[op.offset : op.offset + op.limit]

    def _put(self, op: PutOp) -> None:
        level, key = self._level(op.namespace), _key(op.key)
        levels = self._memory.levels
        if op.value is None:
            if level in self._levels(op.namespace):
                levels.remove(level, key)
            return
        before, now = self._entry(level, op.key), datetime.now(UTC).isoformat()
        created = now if before is None else before.metadata.get("created_at", now)
        metadata = {"created_at": created, "updated_at": now, "ttl": op.ttl}
        content: Any = dict(op.value)
        fields = self._fields if op.index is None else _paths(op.index)
        searched = self._fields is not None and fields is not None
        if searched and fields != [WHOLE]:
            parts = (get_text_at_path(op.value, tokenize_path(path)) for path in fields or ())
            text = "\n".join(part for texts in parts for part in texts)
            searched = bool(text.strip())
            if searched:
                content, metadata["value"] = text, content
        tags = () if searched else (UNSEARCHED,)
        ttl = None if op.ttl is None else op.ttl * 60
        add = partial(levels.add, level, content, key=key, metadata=metadata, tags=tags, ttl=ttl)
        try:
            add()
        except NotFoundError:
            levels.put(level, purpose=f"items of {op.namespace}", upkeep=_KEPT)
            add()

    def _entry(self, level: str, key: str) -> Entry | None:
        """Return a living entry of a level."""
        identity = entry_id(self._memory.namespace, level, _key(key))
        try:
            [entry] = self._memory.levels.entries(identity)
        except NotFoundError:
            return None
        ends = entry.expires_at
        return entry if ends is None or ends > datetime.now(UTC) else None

    def _refresh(self, entries: Sequence[Entry]) -> None:
        """Let items that were read stay as long as new ones."""
        for entry in entries:
            ttl = entry.metadata.get("ttl")
            if isinstance(ttl, int | float) and entry.key is not None:
                self._memory.levels.prolong(entry.level, [entry.key], ttl * 60)

    def _item(self, entry: Entry) -> dict[str, Any]:
        known, key = entry.metadata, entry.id if entry.key is None else entry.key
        return {
            "namespace": self._namespace(entry.level),
            "key": "" if key == EMPTY else unquote(key),
            "value": _value(entry),
            "created_at": known.get("created_at", entry.at),
            "updated_at": known.get("updated_at", entry.at),
        }

    def _level(self, namespace: Namespace) -> str:
        if not namespace or not all(namespace):
            raise ValidationError("namespace", namespace, "is empty, or has an empty part")
        return ":".join((self._root, *(_quoted("namespace", label) for label in namespace)))

    def _levels(self, prefix: Namespace) -> list[str]:
        """Return the names of the levels whose namespaces begin with a prefix."""
        start = self._level(prefix) if prefix else self._root
        names = self._memory.levels.names(self._root.removeprefix(f"{_OWNER}:"))
        return [name for name in names if f"{name}:".startswith(f"{start}:")]

    def _namespace(self, level: str) -> Namespace:
        return tuple(map(unquote, level.removeprefix(f"{self._root}:").split(":")))


def _key(key: str) -> str:
    return _quoted("key", key, special="%") or EMPTY


def _quoted(name: str, text: str, special: str = "%:") -> str:
    """Return a text for use in a name: as it is, else with all odd letters quoted."""
    check_text(name, text)
    plain = unicodedata.normalize("NFC", text).strip() == text and text.isprintable()
    return text if plain and not any(letter in text for letter in special) else quote(text, safe="")


def _fields(index: IndexConfig | Literal[False] | None) -> list[str] | None:
    """Return which fields are searched, or None."""
    if index is None or index is False:
        return [WHOLE] if index is None else None
    if own := {"embed", "dims"} & index.keys():
        raise ValidationError(
            "index", sorted(own), "are what the memory has", "Memory.open takes an embedder"
        )
    return _paths(index.get("fields", [WHOLE]))


def _paths(index: object) -> list[str] | None:
    if index is False:
        return None
    if isinstance(index, list | tuple) and all(isinstance(path, str) for path in index):
        return list(index)
    raise ValidationError("index", index, "must be a list of fields, or False")


def _value(entry: Entry) -> dict[str, Any]:
    """Return the value of an item; if only a part is searched, it is stored beside that part."""
    value = entry.metadata.get("value", entry.content)
    return value if isinstance(value, dict) else {"content": value}


def _matches(condition: MatchCondition, namespace: Namespace) -> bool:
    path = condition.path
    if condition.match_type not in ("prefix", "suffix"):
        raise ValidationError("match_type", condition.match_type, "must be prefix or suffix")
    part = namespace[: len(path)]
    if condition.match_type == "suffix":
        part = namespace[max(len(namespace) - len(path), 0) :]
    return len(part) == len(path) and all(a in ("*", b) for a, b in zip(path, part, strict=True))


def _fits(value: Any, wanted: Any) -> bool:
    """Return whether a value matches a filter: parts of objects, lists item by item."""
    if isinstance(wanted, list | tuple):
        same = isinstance(value, list) and len(value) == len(wanted)
        return same and all(map(_fits, value, wanted))
    if not isinstance(wanted, Mapping):
        return bool(value == wanted)
    if any(str(name).startswith("$") for name in wanted):
        return all(_compared(value, str(name), other) for name, other in wanted.items())
    return isinstance(value, dict) and all(
        _fits(value.get(name), other) for name, other in wanted.items()
    )


def _compared(value: Any, name: str, other: Any) -> bool:
    """Return the result of a comparison; a value that is no number is neither more nor less."""
    if name in ("$eq", "$ne"):
        return (value == other) is (name == "$eq")
    if name not in _OPERATORS:
        raise ValidationError(
            "filter", name, "is no operator", "use $eq, $ne, $gt, $gte, $lt or $lte"
        )
    try:
        return bool(_OPERATORS[name](float(value), float(other)))
    except (TypeError, ValueError):
        return False


_OPERATORS = {"$gt": operator.gt, "$gte": operator.ge, "$lt": operator.lt, "$lte": operator.le}
