"""The dataflow: levels pull what is pending, in the order of the flow, once or at intervals."""

from __future__ import annotations

import json
import logging
import threading
import weakref
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from pydantic import JsonValue

from graphmem.errors import GraphMemError, NotFoundError, StoreError, ValidationError
from graphmem.forks import in_child
from graphmem.graph.arguments import checked_agent
from graphmem.graph.graph import Graph, Transaction
from graphmem.ids import entry_id, from_millis, level_stream_id
from graphmem.levels import outlets, transformers
from graphmem.levels.base import Search, check_readable
from graphmem.levels.entries import lives, store
from graphmem.levels.outlets import Conversion, Outlets
from graphmem.levels.subscriptions import (
    CODE,
    Subscriptions,
    edge_of,
    is_stream,
    open_cursor,
    order_of,
)
from graphmem.levels.topology import note
from graphmem.levels.transformers import Draft, Page, Transformer
from graphmem.levels.views import episode_row
from graphmem.models.fields import Input
from graphmem.models.flow import Pulled, TickReport
from graphmem.models.levels import Seconds, Tags, source_name
from graphmem.store.paging import pages
from graphmem.store.port import Row

PAGE = 2_000
"""Events that are pulled in one transaction."""
_REASONS = 5
"""Most reasons in the report of one subscription."""
_NAMES = {"target", "source", "transformer"}
_log = logging.getLogger(__name__)


class _Interval(Input):
    every: Seconds


class _OvertakenError(Exception):
    """Another tick pulled the page, or the subscription ended."""


class Flow(Subscriptions):
    """Runs the dataflow of one namespace."""

    def __init__(self, graph: Graph, search: Search, ways_out: Outlets) -> None:
        super().__init__(graph, search)
        self._outlets = ways_out
        self._renew()
        in_child(self, Flow._renew)

    def _renew(self) -> None:
        """Begin without a thread, as a forked child does."""
        self._starting = threading.RLock()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

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
        flow = self._graph.read("levels.flow", agent=owner)
        new: Counter[str] = Counter()
        done: list[Pulled] = []
        if any(row["last"] > row["position"] for row in flow):
            places = order_of(map(edge_of, flow))  # a level pulls before others pull from it
            flow.sort(key=lambda row: (places[row["level"]], places[row["source"]]))
        for row in flow:
            if row["last"] > row["position"] or row["source"] in new:
                pulled = self._ingest(row)
                if pulled.model_dump(exclude_defaults=True).keys() - _NAMES:
                    done.append(pulled)
                if pulled.made:
                    new[row["level"]] += pulled.made
        maintained = self._maintain_due(owner).levels
        return TickReport(
            at=now, subscriptions=tuple(done), levels=dict(new), maintained=maintained
        )

    def start(self, every: float = 300.0) -> None:
        """Start a thread of this process that ticks, until ``stop`` or the end of the memory.

        A failure is logged, and the next tick tries again. A forked child has no such thread.

        Args:
            every: seconds between ticks; for a thread that runs already, from now on.

        Raises:
            ValidationError: it is no number of seconds.
        """
        pause = _Interval(every=every).every
        self.stop()
        with self._starting:
            stopping = self._stopping = threading.Event()
            self._thread = threading.Thread(
                target=_run_ticks,
                args=(weakref.ref(self), stopping, pause),
                name="graphmem-tick",
                daemon=True,
            )
            self._thread.start()

    def stop(self) -> None:
        """End the thread that ticks, if there is one; a tick that has begun finishes."""
        with self._starting:
            thread, self._thread = self._thread, None
            self._stopping.set()
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def _ingest(self, row: Row) -> Pulled:
        """Pull all that is pending of one subscription."""
        counts: Counter[str] = Counter()
        reasons: dict[str, None] = {}
        problem = None
        try:
            source = source_name(row["source"])
            if row["owner_kind"] == "agent" and source.owner != row["owner"]:
                check_readable(source, self._view(row["owner"]), "source")
            held = json.loads(row["arguments"])
            where = held.get("where")
            tags = None if where is None else Tags.model_validate_json(json.dumps(where))
            transformer = self._transformer(row)
            for page in self._pages(row, held.get("arguments", {}), tags):
                drafts = transformer.make(page) if page.rows else []
                became = self._convert(row, drafts)
                counts["made"] += self._graph.transact(
                    lambda tx, page=page, drafts=drafts, became=became: _write(  # type: ignore[misc]
                        tx, row, transformer, page, drafts, became
                    )
                )
                counts["ingested"] += len(page.rows)
                counts["missed"] += page.missed
                counts["left_out"] += page.left_out
                counts["became"] += len(became.rows)
                counts["skipped"] += became.skipped
                reasons |= dict.fromkeys(became.reasons)
        except StoreError:
            raise
        except (_OvertakenError, NotFoundError):  # or one of the levels was closed meanwhile
            pass
        except Exception as error:  # noqa: BLE001 - whatever a transformer raises
            kind = "" if isinstance(error, GraphMemError) else f"{type(error).__name__}: "
            problem = f"{kind}{error}"[:1_000]
            name = type(error).__name__
            _log.warning("%s cannot pull from %s: %s", row["level"], row["source"], name)
        return Pulled(
            target=row["level"],
            source=row["source"],
            transformer=row["transformer"],
            **counts,
            reasons=tuple(reasons)[:_REASONS],
            error=problem,
        )

    def _transformer(self, row: Row) -> Transformer:
        name, function = self._functions.get((row["level"], row["source"]), (None, None))
        if function is not None and name == row["transformer"]:
            return transformers.of_function(function)
        if (row["transformer"] or "").startswith(CODE):
            raise ValidationError(
                "transformer",
                row["transformer"],
                "is a function that this process was not given",
                "call levels.pull with it here, too, before the tick",
            )
        return transformers.by_name(row["transformer"])

    def _pages(
        self, row: Row, arguments: Mapping[str, JsonValue], where: Tags | None
    ) -> Iterator[Page]:
        """Read what is pending, a page at a time, up to what there is at the beginning."""
        after, stream = row["position"], row["stream"]
        for end in self._graph.read("levels.ends", ids=[stream]):
            while after < end["last"]:
                upto = min(end["last"], after + PAGE)
                ids = [f"{stream}:{number}" for number in range(after + 1, upto + 1)]
                now = self._graph.now()
                if is_stream(row["source"]):
                    # An episode that an entry became is left out: it would come back as an entry.
                    learned = self._graph.read("flow.learned", ids=ids)
                    rows = [
                        episode_row(one, row["source"]) for one in learned if not one["entries"]
                    ]
                    missed, left_out = 0, len(learned) - len(rows)
                else:
                    pending = self._graph.read("flow.pending", ids=ids, decay=row["decay"])
                    rows, missed = _living(pending, row["since"], now)
                    left_out = 0
                fit = [one for one in rows if where is None or where.fits(one["tags"])]
                yield Page(
                    ns=self._graph.ns,
                    level=row["level"],
                    source=row["source"],
                    now=now,
                    arguments=arguments,
                    chat=self._outlets.chat,
                    rows=fit,
                    after=after,
                    position=upto,
                    missed=missed,
                    left_out=left_out + len(rows) - len(fit),
                )
                after = upto

    def _convert(self, row: Row, drafts: list[Draft]) -> Conversion:
        """Turn entries into what the target shows, if it is a view."""
        if row["holds"] == "entries" or not drafts:
            return Conversion()
        if row["holds"] == "episodes":
            # Leave out what became an episode in another memory before an import.
            ids = sorted({source["id"] for draft in drafts for source in draft.sources})
            episodes = self._graph.read("flow.episodes_of", ids=ids)
            keys = {episode["id"]: episode["source_key"] for episode in episodes}
            known = [{keys.get(source["id"]) for source in draft.sources} for draft in drafts]
            drafts = [
                draft
                for draft, old in zip(drafts, known, strict=True)
                if None in old or old == {outlets.source_key(draft)}
            ]
        return outlets.convert(self._graph.ns, row["holds"], row["owner"], drafts, self._outlets)


def _run_ticks(flow: weakref.ref[Flow], stopping: threading.Event, pause: float) -> None:
    while not stopping.wait(min(pause, threading.TIMEOUT_MAX)):
        alive = flow()
        if alive is None:
            return
        try:
            alive.tick()
        except Exception as error:  # noqa: BLE001 - the thread goes on, whatever failed
            trace = _log.isEnabledFor(logging.DEBUG)  # it may show contents
            _log.error("the tick failed: %s", type(error).__name__, exc_info=trace)
        del alive


def _write(
    tx: Transaction,
    row: Row,
    transformer: Transformer,
    page: Page,
    drafts: list[Draft],
    became: Conversion,
) -> int:
    """Write what was made of a page, and move the cursor; return how many entries are new."""
    cursor = open_cursor(tx, row["level"], row["stream"])
    places = {"after": page.after, "position": page.position}
    if not tx.run("flow.advance", id=cursor, level=row["id"], source=row["source_id"], **places):
        raise _OvertakenError
    made = 0
    if drafts and row["holds"] == "entries":
        made = _store(tx, row["level"], transformer, drafts)
    if became.rows:
        tx.run(f"flow.became_{row['holds']}", rows=became.rows)
    if page.rows:
        read = [{"id": one["id"], "reads": 1, "at": tx.now} for one in page.rows]
        tx.run("entries.touch", rows=read)
    if page.missed:
        tx.run("levels.count", id=row["source_id"], missed=page.missed)
    return made


def _store(tx: Transaction, level: str, transformer: Transformer, drafts: list[Draft]) -> int:
    """Store drafts with what they were made from; return how many entries are new or changed."""
    if transformer.settle is not None:
        tx.run("levels.lock", ids=[level_stream_id(tx.ns, level)])
        drafts = transformer.settle(tx, level, drafts)
    new = [draft.row for draft in drafts if "content" in draft.row]
    stored = store(tx, level, new)
    links = [
        {"id": draft.row["id"], "source": source["id"]}
        for draft in drafts
        for source in draft.sources
    ]
    tx.run("entries.derive", rows=links)
    return len({one.id for one in stored if one.created})


def _living(rows: Sequence[Row], since: int | None, now: int) -> tuple[list[Row], int]:
    """Return the living entries that events stored, once each, and how many are missed.

    An entry that changed again comes with a later event.
    """
    living: list[Row] = []
    missed: set[str] = set()
    for row in rows:
        if row["id"] is None or not lives(row, now):
            if since is None or row["stored_at"] >= since:
                missed.add(row["subject"])
        elif row["seq"] == row["number"]:
            living.append(row)
    return living, len(missed)


def drop_episode_entries(tx: Transaction, episodes: Sequence[str]) -> None:
    """Remove the pulled entries of episodes that are erased."""
    for row in tx.run("levels.flow") if episodes else ():
        if is_stream(row["source"]):
            removed = 0
            for page in pages(episodes, PAGE):
                ids = [entry_id(tx.ns, row["level"], f"episode/{episode}") for episode in page]
                removed += tx.run("upkeep.remove", ids=ids)[0]["removed"]
            if removed:
                note(tx, row["level"], "maintained", {"erased": removed})
