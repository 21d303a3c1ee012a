"""Subscriptions: which level pulls from which, and with what transformer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from graphlib import CycleError, TopologicalSorter

from pydantic import JsonValue

from graphmem.errors import ValidationError
from graphmem.graph.access import View
from graphmem.graph.arguments import checked_agent
from graphmem.graph.graph import Graph, Transaction
from graphmem.ids import canonical_json, level_id, level_stream_id, node_id, stream_id
from graphmem.levels import transformers
from graphmem.levels.base import Search, check_readable, check_tags, check_writable
from graphmem.levels.topology import PULL, note
from graphmem.levels.transformers import Function
from graphmem.levels.upkeep import Maintenance
from graphmem.models.fields import Input, JsonObject
from graphmem.models.flow import Subscription
from graphmem.models.levels import EVENTS, LevelName, Tags, source_name
from graphmem.store.port import Row

CODE = "function "
"""What the names of functions begin with."""


class _Arguments(Input):
    arguments: JsonObject


class Subscriptions(Maintenance):
    """Lets the levels of one namespace pull from each other."""

    def __init__(self, graph: Graph, search: Search) -> None:
        super().__init__(graph, search)
        self._functions: dict[tuple[str, str], tuple[str, Function]] = {}

    def pull(
        self,
        target: str,
        source: str,
        *,
        transformer: str | Function | None = None,
        arguments: Mapping[str, JsonValue] | None = None,
        where: Tags | None = None,
        agent: str | None = None,
    ) -> Subscription:
        """Let a level pull from another at each tick; a repeated call changes nothing.

        The level begins with what the source holds now. In a later call, another transformer or
        other arguments replace the earlier ones, and the level goes on where it was.

        Args:
            target: the level that pulls.
            source: the level from which it pulls; or ``events:AGENT``: each episode that the agent
                learns from now on is an entry (key ``episode/ID``, tags ``kind:episode``,
                ``outcome:...``, ``type:...``). Episodes that entries became are left out, and no
                such entry becomes an episode again.
            transformer: what makes its entries. None: they are taken as they are, under their keys.
                ``dedup``: as they are, but one entry for equal contents. ``count``: one entry for
                equal contents, with their number as ``count`` in its metadata. ``summarise``: one
                entry for all that are pulled at a time: what the model of the settings says, else
                the ``most`` relevant ones (10); records of attempts and facts stay as they are.
                Installed packages offer others. It can be a function of the entries that returns
                entries, texts, JSON or :class:`~graphmem.models.flow.Made`; give a function again
                in each process that ticks.
            arguments: arguments of the transformer.
            where: only pull entries whose tags match; None: all.
            agent: who asks. An agent may let its own levels and those for all pull, from levels
                that it may read. None: anybody.

        Raises:
            NotFoundError: there is no such level.
            ValidationError: an argument is wrong, the transformer is unknown, the source is a view,
                or the level would feed itself; the error names the circle.
            ScopeError: the level is another agent's, or the source may not be read.
        """
        puller, fed = LevelName.of(target, "target"), source_name(source)
        asking = checked_agent(agent)
        check_writable(puller, asking, "target")
        check_tags(where, "where")
        options = _Arguments(arguments={} if arguments is None else arguments).arguments  # type: ignore[arg-type]
        if not (transformer is None or isinstance(transformer, str) or callable(transformer)):
            raise ValidationError("transformer", transformer, "is no name and no function")
        transformers.check_arguments(transformer, options)
        name = _name_of(transformer) if callable(transformer) else transformer
        settings = {"arguments": options}
        if where is not None:
            settings["where"] = where.model_dump(mode="json", exclude_defaults=True)
        row = {
            "id": level_id(self._graph.ns, puller.name),
            "source": source_id(self._graph.ns, fed),
            "transformer": name,
            "arguments": canonical_json(settings),
        }
        own, reader = self._view(None), self._view(asking)

        def work(tx: Transaction) -> bool:
            self._find(tx, [puller], own, "target")
            self._check_source(tx, fed, reader)
            flow = _locked_flow(tx, puller, fed)
            old = [one for one in flow if edge_of(one) == (fed.name, puller.name)]
            if not old:
                order_of([*map(edge_of, flow), (fed.name, puller.name)])
            if not old or any(old[0][part] != row[part] for part in ("transformer", "arguments")):
                subscribe(tx, puller.name, fed, row, new=not old)
                about = {"transformer": name, "arguments": row["arguments"]}
                note(tx, puller.name, "pull", {"source": fed.name, **about})
            return not old

        created = self._graph.transact(work)
        if callable(transformer) and name is not None:
            self._functions[puller.name, fed.name] = (name, transformer)
        return Subscription(
            target=puller.name,
            source=fed.name,
            transformer=name,
            arguments=options,
            where=where,
            created=created,
        )

    def _check_source(self, tx: Transaction, fed: LevelName, view: View) -> None:
        """Check that a reader may pull from a level or stream."""
        if is_stream(fed.name):
            check_readable(fed, view, "source")
            return
        holds = self._find(tx, [fed], view, "source")[0]["holds"]
        if holds != "entries":
            raise ValidationError(
                "source",
                fed.name,
                f"shows {holds}, and has nothing to pull",
                f"pull what {fed.owner!r} learns from {EVENTS}{fed.owner}",
            )

    def unpull(self, target: str, source: str, *, agent: str | None = None) -> bool:
        """Stop a level from pulling from another; return whether it pulled.

        What it pulled stays, and nothing else changes. If it pulls from there again, it begins with
        what the source then holds.

        Args:
            target: the level that pulls.
            source: the level from which it pulls.
            agent: who asks; an agent may change its own levels and those for all. None: anybody.

        Raises:
            NotFoundError: there is no such level as the target.
            ValidationError: a name is wrong.
            ScopeError: the level is another agent's.
        """
        puller, fed = LevelName.of(target, "target"), source_name(source)
        check_writable(puller, checked_agent(agent), "target")
        ids = {
            "id": level_id(self._graph.ns, puller.name),
            "source": source_id(self._graph.ns, fed),
        }

        def work(tx: Transaction) -> bool:
            self._find(tx, [puller], self._view(None), "target")
            _locked_flow(tx, puller, fed)
            ended = bool(tx.run("levels.unsubscribe", rows=[ids])[0]["subscriptions"])
            if ended:
                note(tx, puller.name, "unpull", {"source": fed.name})
            return ended

        ended = self._graph.transact(work)
        self._functions.pop((puller.name, fed.name), None)
        return ended


def _locked_flow(tx: Transaction, *names: LevelName) -> list[Row]:
    """Lock the streams of levels with subscriptions, and of some others; return the former."""
    levels = {name.name for name in names}
    for edge in map(edge_of, tx.run("levels.flow")):
        levels |= {*edge}
    tx.run("levels.lock", ids=sorted(_stream_of(tx.ns, level) for level in levels))
    return tx.run("levels.flow")


def _name_of(function: Function) -> str:
    module = getattr(function, "__module__", None) or type(function).__module__
    name = getattr(function, "__qualname__", None) or type(function).__qualname__
    return f"{CODE}{module}.{name}"


def is_stream(source: str) -> bool:
    """Return whether a source is the stream of an agent."""
    return source.startswith(EVENTS)


def _stream_of(namespace: str, source: str) -> str:
    """Return the id of the stream of a level, or of an agent."""
    if is_stream(source):
        return stream_id(namespace, source.removeprefix(EVENTS))
    return level_stream_id(namespace, source)


def source_id(namespace: str, source: LevelName) -> str:
    """Return the id of the level, or of the agent's stream, that a level pulls from."""
    if is_stream(source.name):
        return _stream_of(namespace, source.name)
    return level_id(namespace, source.name)


def subscribe(tx: Transaction, level: str, source: LevelName, row: Row, *, new: bool) -> None:
    """Let a level pull from a source (a row of ``levels.subscribe``).

    From the stream of an agent it pulls only what comes later.
    """
    if not is_stream(source.name):
        tx.run("levels.subscribe", rows=[row])
        return
    tx.run("events.open_streams", rows=[{"stream": row["source"], "agent": source.owner}])
    tx.run("levels.follow", rows=[row])
    if new:
        last = tx.run("levels.ends", ids=[row["source"]])[0]["last"]
        skip(tx, level, row["source"], last)


def skip(tx: Transaction, level: str, stream: str, position: int) -> None:
    """Let a level begin after a position in a stream."""
    tx.run("events.move_cursor", id=open_cursor(tx, level, stream), position=position)


def open_cursor(tx: Transaction, level: str, stream: str) -> str:
    """Return the id of the cursor of a pulling level in a stream; create it if it is missing."""
    group = PULL + level
    cursor = node_id(tx.ns, "Cursor", group, stream)
    tx.run("events.open_cursor", id=cursor, group=group, stream=stream)
    return cursor


def edge_of(row: Row) -> tuple[str, str]:
    """Return from where a row of ``levels.flow`` leads to where."""
    return row["source"], row["level"]


def order_of(edges: Iterable[tuple[str, str]]) -> dict[str, int]:
    """Return the place of each level in an order that puts it after its sources.

    Args:
        edges: from each source to the level that pulls, by name.

    Raises:
        ValidationError: a level feeds itself; the error names the circle.
    """
    sources: dict[str, list[str]] = {}
    for source, level in sorted(edges):
        sources.setdefault(level, []).append(source)
    sorter = TopologicalSorter(sources)
    try:
        sorter.prepare()
    except CycleError as error:
        circle = error.args[1][:-1]
        first = circle.index(min(circle))
        around = [*circle[first:], *circle[: first + 1]]
        raise ValidationError(
            "source",
            " -> ".join(around),
            "is a circle: a level would feed itself",
            "leave one of these subscriptions out",
        ) from None
    places: dict[str, int] = {}
    while sorter:
        ready = sorted(sorter.get_ready())
        places |= {level: len(places) + number for number, level in enumerate(ready)}
        sorter.done(*ready)
    return places
