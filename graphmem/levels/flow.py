"""The dataflow: levels that pull from others, in the order of the flow."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import Any, NamedTuple

from pydantic import JsonValue

from graphmem.errors import GraphMemError, NotFoundError, StoreError, ValidationError
from graphmem.graph.access import View
from graphmem.graph.arguments import checked_agent
from graphmem.graph.graph import Graph, Transaction
from graphmem.ids import (
    canonical_json,
    entry_id,
    from_millis,
    level_id,
    level_stream_id,
    node_id,
    stream_id,
)
from graphmem.levels import becoming, transformers
from graphmem.levels.base import Search, check_readable, check_writable
from graphmem.levels.becoming import Became, Outlets
from graphmem.levels.entries import store
from graphmem.levels.topology import PULL, note
from graphmem.levels.transformers import Draft, Function, Page, Transformer
from graphmem.levels.upkeep import Maintenance
from graphmem.levels.views import learned
from graphmem.models.fields import Input, JsonObject
from graphmem.models.flow import Pulled, Subscription, TickReport
from graphmem.models.levels import EVENTS, LevelName, Tags, source_name
from graphmem.store.paging import pages
from graphmem.store.port import Row

PAGE = 2_000
"""Events that are pulled in one transaction."""
_REASONS = 5
"""Most reasons in the report of one subscription."""
_log = logging.getLogger(__name__)
BECAME = {"episodes": "flow.became_episodes", "knowledge": "flow.became_knowledge"}
"""Notes what entries became."""


class _Arguments(Input):
    arguments: JsonObject


class _Read(NamedTuple):
    """A page that was read from a source, and what was made of it."""

    after: int
    """The position of the cursor before it."""
    upto: int
    pulled: list[Row]
    left_out: int
    missed: int
    drafts: list[Draft]


class Flow(Maintenance):
    """Lets the levels of one namespace pull from each other."""

    def __init__(self, graph: Graph, search: Search, outlets: Outlets) -> None:
        super().__init__(graph, search)
        self._outlets = outlets
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
        if where is not None and not isinstance(where, Tags):
            raise ValidationError("where", where, "is not a Tags", "give Tags(any_of=...)")
        given = _Arguments(arguments={} if arguments is None else arguments).arguments  # type: ignore[arg-type]
        function = transformer if callable(transformer) else None
        if function is None:
            if transformer is not None and not isinstance(transformer, str):
                raise ValidationError("transformer", transformer, "is no name and no function")
            name = transformer
            _, takes = transformers.named(transformer)
        else:
            name, takes = _name_of(function), function
        transformers.check_arguments(takes, given)
        row = {
            "id": level_id(self._graph.ns, puller.name),
            "source": source_id(self._graph.ns, fed),
            "transformer": name,
            "arguments": canonical_json({"arguments": given} | _where(where)),
        }
        own, reader = self._view(None), self._view(asking)

        def work(tx: Transaction) -> bool:
            self._find(tx, [puller], own, "target")
            self._check_source(tx, fed, reader)
            flow = self._locked(tx, puller, fed)
            pair = (puller.name, fed.name)
            old = [each for each in flow if (each["level"], each["source"]) == pair]
            if not old:
                check_no_circle([*flow_edges(flow), (fed.name, puller.name)])
            if not old or any(old[0][part] != row[part] for part in ("transformer", "arguments")):
                way = "levels.follow" if fed.name.startswith(EVENTS) else "levels.subscribe"
                tx.run(way, rows=[row])
                if not old and fed.name.startswith(EVENTS):
                    begin(tx, puller.name, source_id(tx.ns, fed))
                told = {"source": fed.name, "transformer": name, "arguments": row["arguments"]}
                note(tx, puller.name, "pull", told)
            return not old

        created = self._graph.transact(work)
        if function is not None and name is not None:
            self._functions[puller.name, fed.name] = (name, function)
        return Subscription(
            target=puller.name,
            source=fed.name,
            transformer=name,
            arguments=given,
            where=where,
            created=created,
        )

    def _check_source(self, tx: Transaction, fed: LevelName, view: View) -> None:
        """Check that a reader may pull from a level or stream."""
        if fed.name.startswith(EVENTS):
            check_readable(fed, view, "source")
            stream = {"stream": source_id(tx.ns, fed), "agent": fed.owner}
            tx.run("events.open_streams", rows=[stream])
            return
        there = self._find(tx, [fed], view, "source")[0]
        if there["holds"] != "entries":
            raise ValidationError(
                "source",
                fed.name,
                f"shows {there['holds']}, and has nothing to pull",
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
        row = {
            "id": level_id(self._graph.ns, puller.name),
            "source": source_id(self._graph.ns, fed),
        }

        def work(tx: Transaction) -> bool:
            self._find(tx, [puller], self._view(None), "target")
            self._locked(tx, puller, fed)
            ended = bool(tx.run("levels.unsubscribe", rows=[row])[0]["subscriptions"])
            if ended:
                cursor = node_id(tx.ns, "Cursor", PULL + puller.name, _stream(tx.ns, fed.name))
                tx.run("levels.drop_cursors", ids=[cursor])
                note(tx, puller.name, "unpull", {"source": fed.name})
            return ended

        ended = self._graph.transact(work)
        self._functions.pop((puller.name, fed.name), None)
        return ended

    def tick(self, agent: str | None = None) -> TickReport:
        """Let levels pull what is pending, in the order of the dataflow, and maintain them.

        Each subscription ingests an entry once, also after a crash, because one transaction writes
        the result and the position. Entries that expired before count as missed. If the target is a
        view, an entry becomes what the view shows. A dict with the fields of an episode (at least
        ``task``, and ``success``, ``score`` or ``outcome``) becomes an episode. One with a ``fact``
        and a ``domain`` (a field, or a tag ``domain:...``) becomes knowledge. The view skips
        others, and the report says why. A transformer that fails stops only its subscription. At
        the end, levels are maintained as by :meth:`maintain`.

        Args:
            agent: only the levels of this agent pull, and are maintained; None: all.

        Raises:
            ValidationError: it is not the name of an agent, or the dataflow has a circle.
            StoreError: the engine failed; what was reported before is written.
        """
        owner = checked_agent(agent)
        now = from_millis(self._graph.now())
        flow = self._graph.read("flow.subscriptions", agent=owner)
        fed: dict[str, int] = {}
        done: list[Pulled] = []
        pending = any(row["last"] > row["position"] for row in flow)
        for row in _ordered(flow) if pending else ():
            if row["last"] > row["position"] or row["source"] in fed:
                pulled = self._ingest(row)
                if pulled != Pulled(**{name: row[_FIELDS[name]] for name in _FIELDS}):
                    done.append(pulled)
                if pulled.made:
                    fed[row["level"]] = fed.get(row["level"], 0) + pulled.made
        kept = self._due(owner).levels
        return TickReport(at=now, subscriptions=tuple(done), levels=fed, maintained=kept)

    def _locked(self, tx: Transaction, *names: LevelName) -> list[Row]:
        """Lock the streams of levels with subscriptions, and of some others; return the former."""
        levels = {name.name for name in names}
        for level, source in flow_edges(tx.run("flow.subscriptions")):
            levels |= {level, source}
        tx.run("levels.lock", ids=sorted(_stream(tx.ns, level) for level in levels))
        return tx.run("flow.subscriptions")

    def _ingest(self, row: Row) -> Pulled:
        """Pull all that is pending of one subscription."""
        told: dict[str, Any] = {name: row[_FIELDS[name]] for name in _FIELDS}
        counts = dict.fromkeys(("ingested", "made", "became", "missed", "left_out", "skipped"), 0)
        reasons: list[str] = []
        try:
            self._check_still_readable(row)
            transformer, arguments, where = self._way(row)
            for read in self._pages(row, transformer, arguments, where):
                became = self._become(row, read)
                made = self._graph.transact(
                    lambda tx, read=read, became=became: self._write(  # type: ignore[misc]
                        tx, row, transformer, read, became
                    )
                )
                if made is None:  # another tick was here first
                    continue
                counts["ingested"] += len(read.pulled)
                counts["made"] += made
                counts["missed"] += read.missed
                counts["left_out"] += read.left_out
                counts["became"] += len(became.rows)
                counts["skipped"] += became.skipped
                reasons += [reason for reason in became.reasons if reason not in reasons]
        except StoreError:
            raise
        except NotFoundError:  # one of the levels was closed meanwhile
            pass
        except Exception as error:  # noqa: BLE001 - whatever a transformer raises
            kind = "" if isinstance(error, GraphMemError) else f"{type(error).__name__}: "
            told["error"] = f"{kind}{error}"[:1_000]
            name = type(error).__name__
            _log.warning("%s cannot pull from %s: %s", row["level"], row["source"], name)
        return Pulled(**told, **counts, reasons=tuple(reasons[:_REASONS]))

    def _check_still_readable(self, row: Row) -> None:
        """Check that the owner of a level may still read what it pulls from."""
        source = source_name(row["source"])
        if row["owner_kind"] == "agent" and source.owner != row["owner"]:
            check_readable(source, self._view(row["owner"]), "source")

    def _way(self, row: Row) -> tuple[Transformer, Mapping[str, JsonValue], Tags | None]:
        """Return the transformer of a subscription, its arguments, and its condition on tags."""
        held = json.loads(row["arguments"])
        where = held.get("where")
        tags = None if where is None else Tags.model_validate_json(json.dumps(where))
        name, function = self._functions.get((row["level"], row["source"]), (None, None))
        if function is not None and name == row["transformer"]:
            transformer, _ = transformers.of_function(function)
        elif (row["transformer"] or "").startswith(_CODE):
            raise ValidationError(
                "transformer",
                row["transformer"],
                "is a function that this process was not given",
                "call levels.pull with it here, too, before the tick",
            )
        else:
            transformer, _ = transformers.named(row["transformer"])
        return transformer, held.get("arguments", {}), tags

    def _pages(
        self,
        row: Row,
        transformer: Transformer,
        arguments: Mapping[str, JsonValue],
        where: Tags | None,
    ) -> Iterable[_Read]:
        """Read what is pending, a page at a time, up to what there is at the beginning."""
        end = None
        while True:
            flow = self._graph.read("levels.flow", ids=[row["id"]])
            here = [each for each in flow if each["source_id"] == row["source_id"]]
            end = here[0]["last"] if here and end is None else end
            if not here or end is None or here[0]["position"] >= end:
                return
            after = here[0]["position"]
            upto = min(end, after + PAGE)
            ids = [f"{row['stream']}:{number}" for number in range(after + 1, upto + 1)]
            living, missed, left = self._look_at(row, ids)
            fits = [each for each in living if where is None or where.fits(each["tags"])]
            page = Page(
                self._graph.ns,
                row["level"],
                row["source"],
                fits,
                self._graph.now(),
                arguments,
                self._outlets.chat,
            )
            drafts = transformer.make(page) if fits else []
            yield _Read(after, upto, fits, left + len(living) - len(fits), missed, drafts)

    def _look_at(self, row: Row, ids: list[str]) -> tuple[list[Row], int, int]:
        """Return what events stored, how much of it is missed, and how much is left out.

        An episode that an entry of a level became is left out: it would come back as an entry.
        """
        if row["source"].startswith(EVENTS):
            rows = self._graph.read("flow.learned", ids=ids)
            new = [learned(each, row["source"]) for each in rows if not each["entries"]]
            return new, 0, len(rows) - len(new)
        rows = self._graph.read("flow.pending", ids=ids, decay=row["decay"])
        return *_living(rows, row["since"], self._graph.now()), 0

    def _become(self, row: Row, read: _Read) -> Became:
        """Turn entries into what the target shows, if it is a view."""
        if row["holds"] == "entries" or not read.drafts:
            return Became()
        drafts = read.drafts
        if row["holds"] == "episodes":
            drafts = self._unlearned(drafts)
        return becoming.become(self._graph.ns, row["holds"], row["owner"], drafts, self._outlets)

    def _unlearned(self, drafts: list[Draft]) -> list[Draft]:
        """Leave out what became an episode in another memory before an import."""
        ids = sorted({source["id"] for draft in drafts for source in draft.sources})
        rows = self._graph.read("flow.episodes_of", ids=ids)
        keys = {row["id"]: row["source_key"] for row in rows}
        new = []
        for draft in drafts:
            known = {keys.get(source["id"]) for source in draft.sources}
            if None in known or known == {becoming.source_key(draft)}:
                new.append(draft)
        return new

    def _write(
        self, tx: Transaction, row: Row, transformer: Transformer, read: _Read, became: Became
    ) -> int | None:
        """Write what was made of a page, and move the cursor; None: another was here first."""
        group = PULL + row["level"]
        cursor = node_id(tx.ns, "Cursor", group, row["stream"])
        tx.run("events.open_cursor", id=cursor, group=group, stream=row["stream"])
        taken = tx.run("flow.take", id=cursor)
        if not taken or taken[0]["position"] != read.after:
            return None
        made = 0
        if read.drafts and row["holds"] == "entries":
            made = _stored(tx, row["level"], transformer, read.drafts)
        for kind, rows in became.by_kind().items():
            tx.run(BECAME[kind], rows=rows)
        if read.pulled:
            touched = [{"id": each["id"], "reads": 1, "at": tx.now} for each in read.pulled]
            tx.run("entries.touch", rows=touched)
        if read.missed:
            tx.run("flow.miss", id=row["source_id"], missed=read.missed)
        tx.run("events.move_cursor", id=cursor, position=read.upto)
        return made


_FIELDS = {"target": "level", "source": "source", "transformer": "transformer"}
_CODE = "function "
"""What the names of functions begin with."""


def _name_of(function: Function) -> str:
    module = getattr(function, "__module__", None) or type(function).__module__
    name = getattr(function, "__qualname__", None) or type(function).__qualname__
    return f"{_CODE}{module}.{name}"


def _where(where: Tags | None) -> dict[str, Any]:
    return {} if where is None else {"where": where.model_dump(mode="json", exclude_defaults=True)}


def _living(rows: Sequence[Row], since: int | None, now: int) -> tuple[list[Row], int]:
    """Return the living entries that events stored, once each, and how many are missed.

    An entry that changed again comes with a later event.
    """
    living: list[Row] = []
    missed: set[str] = set()
    for row in rows:
        if row["id"] is None or (row["expires_at"] is not None and row["expires_at"] <= now):
            if since is None or row["stored_at"] >= since:
                missed.add(row["subject"])
        elif row["seq"] == row["number"]:
            living.append(row)
    return living, len(missed)


def _stored(tx: Transaction, level: str, transformer: Transformer, drafts: list[Draft]) -> int:
    """Store drafts with what they were made from; return how many entries are new or changed."""
    known: list[Draft] = []
    if transformer.settle is not None:
        tx.run("levels.lock", ids=[level_stream_id(tx.ns, level)])
        drafts, known = transformer.settle(tx, level, drafts)
    added = store(tx, level, [draft.row for draft in drafts])
    again = {one.id for one in added if one.replaced or not one.created}
    new: list[Row] = []
    old: list[Row] = []
    for draft in (*drafts, *known):
        for source in draft.sources:
            # Without a key an entry is stored once, so that its edge cannot be there yet.
            edges = old if source["key"] is not None and draft.row["id"] in again else new
            edges.append({"id": draft.row["id"], "source": source["id"]})
    if new:
        tx.run("flow.derive", rows=new)
    if old:
        tx.run("entries.derive", rows=old)
    return len({one.id for one in added if one.created})


def source_id(namespace: str, source: LevelName) -> str:
    """Return the id of the level, or of the agent's stream, that a level pulls from."""
    if source.name.startswith(EVENTS):
        return _stream(namespace, source.name)
    return level_id(namespace, source.name)


def _stream(namespace: str, source: str) -> str:
    """Return the id of the stream of a level, or of an agent."""
    if source.startswith(EVENTS):
        return stream_id(namespace, source.removeprefix(EVENTS))
    return level_stream_id(namespace, source)


def begin(tx: Transaction, level: str, stream: str) -> None:
    """Let a level begin after what is in an agent's stream."""
    last = tx.run("levels.ends", ids=[stream])[0]["last"]
    group = PULL + level
    cursor = node_id(tx.ns, "Cursor", group, stream)
    tx.run("events.open_cursor", id=cursor, group=group, stream=stream)
    tx.run("events.move_cursor", id=cursor, position=last)


def drop_told(tx: Transaction, episodes: Sequence[str]) -> None:
    """Remove the pulled entries of episodes that are erased."""
    for row in tx.run("flow.subscriptions") if episodes else ():
        if row["source"].startswith(EVENTS):
            removed = 0
            for page in pages(episodes, PAGE):
                told = [entry_id(tx.ns, row["level"], f"episode/{episode}") for episode in page]
                removed += tx.run("upkeep.remove", ids=told)[0]["removed"]
            if removed:
                note(tx, row["level"], "maintained", {"erased": removed})


def flow_edges(flow: Iterable[Row]) -> list[tuple[str, str]]:
    """Return the edges of the dataflow: from each source to the level that pulls."""
    return [(row["source"], row["level"]) for row in flow]


def check_no_circle(edges: Iterable[tuple[str, str]]) -> None:
    """Check that no level feeds itself.

    Raises:
        ValidationError: one does; the error names the circle.
    """
    _places(edges)


def _places(edges: Iterable[tuple[str, str]]) -> dict[str, int]:
    """Return the place of each level in an order that puts it after its sources."""
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


def _ordered(flow: Sequence[Row]) -> list[Row]:
    """Return subscriptions so that a level pulls before others pull from it."""
    places = _places(flow_edges(flow))
    return sorted(flow, key=lambda row: (places[row["level"]], places[row["source"]]))
