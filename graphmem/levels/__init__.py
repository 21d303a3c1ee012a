"""Levels: what agents hold now, for an hour, or for good, as a part of the graph.

Each level may pull from others; this dataflow runs in order, once or at intervals.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import weakref
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from graphlib import CycleError, TopologicalSorter

from graphmem.errors import GraphMemError, NotFoundError, StoreError, ValidationError
from graphmem.graph.arguments import checked_agent
from graphmem.graph.graph import Graph, Transaction
from graphmem.graph.reads import Reads
from graphmem.ids import event_ids, from_millis, level_id, level_stream_id, node_id
from graphmem.levels import transformers
from graphmem.levels.entries import Entries, Link, link, lives, store
from graphmem.levels.queries import Queries
from graphmem.levels.topology import check_readable, condition_of, existing, note, subscription
from graphmem.levels.transformers import Draft, Function, Outlets, Page, Transformer, Wait
from graphmem.models.fields import checked
from graphmem.models.levels import LevelName, Pulled, PullOptions, Seconds, Tags, TickReport
from graphmem.search.entries import EntrySearch
from graphmem.store.port import Row

PAGE = 2_000  # events that are pulled in one transaction
_REASONS = 5  # most reasons in the report of one subscription
_CODE = "function "  # what the names of functions begin with
_log = logging.getLogger(__name__)


class _OvertakenError(Exception):
    """Another tick pulled the page, or the subscription ended."""


class Levels(Entries, Queries):
    """The levels of one namespace, and their entries: ``memory.levels``.

    ``agent`` says who asks: an agent may change its own levels and lenses and those for all, and
    read these and what others share with it. None: anybody.

    A level that is not there is a NotFoundError; one that ``agent`` may not read, or write, a
    ScopeError; a view that is to take entries a ValidationError. Then nothing was written.
    """

    def __init__(self, graph: Graph, search: EntrySearch, reads: Reads, outlets: Outlets) -> None:
        super().__init__(graph, search, reads)
        self._outlets = outlets
        self._functions: dict[tuple[str, str], tuple[str, Function]] = {}
        self._starting = threading.RLock()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def pull(
        self,
        target: str,
        source: str,
        *,
        transformer: str | Function | None = None,
        where: Tags | None = None,
        agent: str | None = None,
    ) -> bool:
        """Let a level pull from another at each tick; return whether that is new.

        A repeated call changes nothing. The level begins with what the source holds now. In a later
        call, another transformer or condition replaces the earlier one, and the level goes on where
        it was.

        Args:
            target: the level that pulls.
            source: the level from which it pulls.
            transformer: what makes its entries. None: they are taken as they are, under their keys.
                ``dedup``: as they are, but one entry for equal contents. ``count``: one entry for
                equal contents, with their number as ``count`` in its metadata. ``summarise``: one
                entry for all that are pulled at a time: what the model of the settings says, else
                the 10 most relevant ones; records of attempts and facts stay as they are.
                It can be a function of the entries, also an async one, that returns entries, texts,
                JSON or :class:`~graphmem.models.levels.Made`; give it again in each process that
                ticks.
            where: only pull entries whose tags match; None: all.
            agent: who asks. An agent may let its own levels and those for all pull, from levels
                that it may read. None: anybody.

        Raises:
            ValidationError: an argument is wrong, the transformer is unknown, the source is a view,
                or the level would feed itself; the error names the circle.
        """
        puller, origin = self._writable(target, agent, "target"), LevelName.of(source, "source")
        options = PullOptions(where=where)
        name = _name_of(transformer) if callable(transformer) else transformer
        if not callable(transformer):
            transformers.of_own(transformer)
        row = subscription(self._graph.ns, puller.name, origin.name, name, options)
        reader = self._view(agent)

        def work(tx: Transaction) -> bool:
            existing(tx, [puller.name])
            [there] = self._find(tx, [origin], reader, "source")
            if there["holds"] != "entries":
                problem = f"shows {there['holds']}, and has nothing to pull"
                raise ValidationError("source", origin.name, problem, "name another level")
            flow = _locked_flow(tx, puller, origin)
            edge = (origin.name, puller.name)
            old = [one for one in flow if edge_of(one) == edge]
            if not old:
                order_of([*map(edge_of, flow), edge])
            if not old or (old[0]["transformer"], condition_of(old[0])) != (name, where):
                tx.run("levels.subscribe", rows=[row])
                about = {"transformer": name, "arguments": row["arguments"]}
                note(tx, puller.name, "pull", {"source": origin.name, **about})
            return not old

        created = self._graph.transact(work)
        if callable(transformer):
            self._functions[puller.name, origin.name] = (str(name), transformer)
        return created

    def unpull(self, target: str, source: str, *, agent: str | None = None) -> bool:
        """Stop a level from pulling from another; return whether it pulled.

        What it pulled stays, and nothing else changes. If it pulls from there again, it begins with
        what the source then holds.
        """
        puller, origin = self._writable(target, agent, "target"), LevelName.of(source, "source")
        ns = self._graph.ns
        ids = {"id": level_id(ns, puller.name), "source": level_id(ns, origin.name)}

        def work(tx: Transaction) -> bool:
            existing(tx, [puller.name])
            _locked_flow(tx, puller, origin)
            count = bool(tx.run("levels.unsubscribe", rows=[ids])[0]["subscriptions"])
            if count:
                note(tx, puller.name, "unpull", {"source": origin.name})
            return count

        count = self._graph.transact(work)
        self._functions.pop((puller.name, origin.name), None)
        return count

    def tick(self, agent: str | None = None) -> TickReport:
        """Let levels, all or those of an agent, pull what is pending, and maintain them.

        They pull in the order of the dataflow. Each subscription ingests an entry once, also after
        a crash, because one transaction writes the result and the position. Entries that expired
        before count as missed. If the target is a view, an entry becomes what the view shows. A
        dict with the fields of an episode (at least ``task``, and ``success`` or ``score``) becomes
        an episode. One with a ``fact`` and a ``domain`` becomes knowledge. The view skips others,
        and the report says why. A transformer that fails stops only its subscription, and so does
        an async one, unless an AsyncMemory or the thread of :meth:`start` ticks. At the end, levels
        are maintained as by :meth:`maintain`.

        Raises:
            ValidationError: it is not the name of an agent, or the dataflow has a circle.
            StoreError: the engine failed; what was reported before is written.
        """
        return self._tick(agent)

    def _tick(self, agent: str | None, wait: Wait | None = None) -> TickReport:
        """Let levels pull, and maintain them; ``wait`` waits for async transformers."""
        owner = checked_agent(agent)
        now = from_millis(self._graph.now())
        flow = self._graph.read("levels.flow", agent=owner)
        if any(row["last"] > row["position"] for row in flow):
            places = order_of(map(edge_of, flow))  # a level pulls before others pull from it
            flow.sort(key=lambda row: (places[row["level"]], places[row["source"]]))
        new = Counter[str]()
        pulls: list[Pulled] = []
        for row in flow:
            if row["last"] > row["position"] or row["source"] in new:
                pulled = self._ingest(row, wait)
                if pulled.model_dump(exclude_defaults=True, exclude={"target", "source"}):
                    pulls.append(pulled)
                if pulled.made:
                    new[row["level"]] += pulled.made
        done = self.maintain(agent=owner)
        return TickReport(
            at=now, subscriptions=tuple(pulls), levels=dict(new), maintained=done.levels
        )

    def start(self, every: float = 300.0) -> None:
        """Start a thread of this process that ticks, until ``stop`` or the end of the memory.

        ``every`` is the seconds between ticks; for a thread that runs already, from now on. A
        failure is logged, and the next tick tries again. A forked child has no such thread.
        """
        pause: float = checked("every", every, Seconds)
        self.stop()
        with self._starting:
            self._stopping = threading.Event()
            args = weakref.ref(self), self._stopping, pause
            self._thread = threading.Thread(None, _run_ticks, "graphmem-tick", args, daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """End the thread that ticks, if there is one; a tick that has begun finishes."""
        with self._starting:
            thread, self._thread = self._thread, None
            self._stopping.set()
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def _ingest(self, row: Row, wait: Wait | None) -> Pulled:
        """Pull all that is pending of one subscription (a row of ``levels.flow``)."""
        counts, reasons = Counter[str](), Counter[str]()
        problem = None
        try:
            source = LevelName.of(row["source"])
            if row["owner_kind"] == "agent" and source.owner != row["owner"]:
                check_readable(source, self._view(row["owner"]), "source")
            transformer = self._transformer(row, wait)
            for page in self._pages(row, condition_of(row)):
                drafts = transformer.make(page) if page.rows else []
                links, refusals = transformers.convert(self._graph, row, drafts, self._outlets)
                made = self._graph.transact(partial(_write, row, page, transformer, drafts, links))
                counts.update(made=made, ingested=len(page.rows), became=len(links))
                counts.update(missed=page.missed, left_out=page.left_out)
                reasons += refusals
        except StoreError:
            raise
        except (_OvertakenError, NotFoundError):  # or one of the levels was closed meanwhile
            pass
        except Exception as error:  # noqa: BLE001 - whatever a transformer raises
            name = type(error).__name__
            kind = "" if isinstance(error, GraphMemError) else f"{name}: "
            problem = f"{kind}{error}"[:1_000]
            _log.warning("%s cannot pull from %s: %s", row["level"], row["source"], name)
        return Pulled(
            target=row["level"],
            source=row["source"],
            **counts,
            skipped=reasons.total(),
            reasons=tuple(reasons)[:_REASONS],
            error=problem,
        )

    def _transformer(self, row: Row, wait: Wait | None) -> Transformer:
        name, function = self._functions.get((row["level"], row["source"]), (None, None))
        if function is not None and name == row["transformer"]:
            return transformers.of_function(function, wait)
        if (row["transformer"] or "").startswith(_CODE):
            problem = "is a function that this process was not given"
            remedy = "call levels.pull with it here, too, before the tick"
            raise ValidationError("transformer", row["transformer"], problem, remedy)
        return transformers.of_own(row["transformer"])

    def _pages(self, row: Row, where: Tags | None) -> Iterator[Page]:
        """Read what is pending, a page at a time, up to what there is at the beginning."""
        after, stream = row["position"], row["stream"]
        for end in self._graph.read("levels.ends", ids=[stream]):
            while after < end["last"]:
                upto = min(end["last"], after + PAGE)
                now = self._graph.now()
                events = self._graph.read("flow.pending", ids=event_ids(stream, after + 1, upto))
                rows, missed = _living(events, row["since"], now)
                fit = [one for one in rows if where is None or where.fits(one["tags"])]
                place = (self._graph.ns, row["level"], now, self._outlets.chat)
                yield Page(*place, fit, after, upto, missed, len(rows) - len(fit))
                after = upto


def _run_ticks(levels: weakref.ref[Levels], stopping: threading.Event, pause: float) -> None:
    while not stopping.wait(min(pause, threading.TIMEOUT_MAX)):
        alive = levels()
        if alive is None:
            return
        try:
            alive._tick(None, asyncio.run)
        except Exception as error:  # noqa: BLE001 - the thread goes on, whatever failed
            trace = _log.isEnabledFor(logging.DEBUG)  # it may show contents
            _log.error("the tick failed: %s", type(error).__name__, exc_info=trace)
        del alive


def _write(
    row: Row,
    page: Page,
    transformer: Transformer,
    drafts: list[Draft],
    became: list[Link],
    tx: Transaction,
) -> int:
    """Write what was made of a page, and move the cursor; return how many entries are new."""
    cursor = open_cursor(tx, row["level"], row["stream"])
    places = {"after": page.after, "position": page.position}
    if not tx.run("flow.advance", id=cursor, level=row["id"], source=row["source_id"], **places):
        raise _OvertakenError
    count = 0
    if drafts and row["holds"] == "entries":
        if transformer.settle is not None:
            tx.run("events.lock_streams", ids=[level_stream_id(tx.ns, row["level"])])
            drafts = transformer.settle(tx, row["level"], drafts)
        stored = store(tx, row["level"], [one.row for one in drafts if "content" in one.row])
        count = sum(map(len, stored))
        link(tx.run, ((one.row["id"], of["id"]) for one in drafts for of in one.sources))
    link(tx.run, became)
    if page.rows:
        read = [{"id": one["id"], "reads": 1, "at": tx.now} for one in page.rows]
        tx.run("entries.count_reads", rows=read)
    if page.missed:
        tx.run("levels.count", id=row["source_id"], missed=page.missed)
    return count


def _living(rows: Sequence[Row], since: int | None, now: int) -> tuple[list[Row], int]:
    """Return the living entries that events stored, once each, and how many are missed."""
    living: list[Row] = []
    missed: set[str] = set()
    for row in rows:
        if row["id"] is None or not lives(row, now):
            if since is None or row["stored_at"] >= since:
                missed.add(row["subject"])
        elif row["seq"] == row["number"]:  # else it changed again, and comes with a later event
            living.append(row)
    return living, len(missed)


def _locked_flow(tx: Transaction, *names: LevelName) -> list[Row]:
    """Lock the streams of levels with subscriptions, and of some others; return the former."""
    levels = {name.name for name in names}.union(*map(edge_of, tx.run("levels.flow")))
    tx.run("events.lock_streams", ids=sorted(level_stream_id(tx.ns, level) for level in levels))
    return tx.run("levels.flow")


def _name_of(function: Function) -> str:
    module = getattr(function, "__module__", None) or type(function).__module__
    name = getattr(function, "__qualname__", None) or type(function).__qualname__
    return f"{_CODE}{module}.{name}"


def open_cursor(tx: Transaction, level: str, stream: str) -> str:
    """Return the id of the cursor of a pulling level in a stream; create it if it is missing."""
    group = f"pull:{level}"
    cursor = node_id(tx.ns, "Cursor", group, stream)
    tx.run("events.open_cursor", id=cursor, group=group, stream=stream)
    return cursor


def edge_of(row: Row) -> tuple[str, str]:
    """Return from where a row of ``levels.flow`` leads to where."""
    return row["source"], row["level"]


def order_of(edges: Iterable[tuple[str, str]]) -> dict[str, int]:
    """Return the place of each level, after its sources; a circle is an error that names it."""
    sorter = TopologicalSorter[str]()
    for source, level in sorted(edges):
        sorter.add(level, source)
    try:
        return {name: place for place, name in enumerate(sorter.static_order())}
    except CycleError as error:
        circle = error.args[1][:-1]
        first = circle.index(min(circle))
        around = " -> ".join([*circle[first:], *circle[: first + 1]])
        problem = "is a circle: a level would feed itself"
        remedy = "leave one of these subscriptions out"
        raise ValidationError("source", around, problem, remedy) from None
