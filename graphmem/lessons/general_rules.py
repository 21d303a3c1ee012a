"""Consolidation: findings that repeat over several tasks become general rules.

``docs/how-to/consolidate.md`` says which do. Those from repetition follow from the facts, so that
`verify` can derive them again. A model adds its own, which are marked: each names episodes from the
prompt, and is kept if more of these support than contradict it. No transaction is open while the
model is asked.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from graphmem.graph.access import View
from graphmem.graph.derived import GENERAL_RULES, KINDS, PREFERRED, Page, Paged, Rebuilt, Verified
from graphmem.graph.graph import Graph, Reader, Transaction
from graphmem.ids import consolidation_id, node_id, rule_id
from graphmem.lessons.anti_patterns import preferred, refresh_preferred
from graphmem.lessons.proposals import MODEL, Proposal
from graphmem.store.paging import ranges, weighed
from graphmem.store.port import Row
from graphmem.text.words import clauses, normalized

REPETITION, SUMMARIES = "repetition", "summaries"
REPEATED = 3  # fewest episodes that say a clause of a rule (as in the procedure)
USES = 20_000  # about so many uses of strategies are looked at by a statement, with a row for each


@dataclass(frozen=True)
class Touched:
    """The parts of general rules that depend on some episodes: see :func:`drop`."""

    strategies: set[str]
    wordings: set[str]
    told: bool  # whether one of them has a summary, and neither strategies nor sentences
    current: bool  # whether the rules followed from all episodes


def consolidate(tx: Transaction, proposal: Proposal) -> tuple[dict[str, int], str | None]:
    """Derive and write the rules; return counts, and why no rules of a model were written."""
    if not lock(tx):
        tx.run("consolidation.open", id=consolidation_id(tx.ns))
    before = {row["id"] for row in _rules(tx) if row["source"] != MODEL}
    z = tx.settings.z
    rows, episodes, stamp = _find(tx, z)
    after = {row["id"] for row in rows}
    _replace(tx, before, rows)
    identity = consolidation_id(tx.ns)
    tx.run("consolidation.note", id=identity, episodes=episodes, stamp=stamp, at=tx.now, z=z)
    reason, dropped = proposal.reason, proposal.dropped
    if proposal.sent:
        if len(tx.run("maintenance.classes", ids=list(proposal.sent))) < len(proposal.sent):
            reason = "an episode that the model was sent was erased meanwhile"
        else:
            asked = list(proposal.rules)
            kept = tx.run("consolidation.shown", rows=asked) if asked else []
            earlier = [row["id"] for row in _rules(tx) if row["source"] == MODEL]
            named = [{**_sorted(row), "source": MODEL} for row in kept]
            _replace(tx, earlier, named, proposal.sent)
            dropped += len(asked) - len(kept)
    counts = {
        "rules": len(rows),
        "created": len(after - before),
        "removed": len(before - after),
        "model_rules": sum(row["source"] == MODEL for row in _rules(tx)),
        "dropped": dropped,
        "preferred": refresh_preferred(tx),
    }
    return counts, reason


class Consolidated(Paged):
    """The general rules from repetition, and the alternatives of anti-patterns."""

    follows = tuple(kind.name for kind in KINDS)

    def compare(self, tx: Transaction, page: Page) -> Verified:  # noqa: ARG002 - the only one
        """Compare them with the facts, unless there are newer episodes."""
        if self._graph.must_lock:
            lock(tx)
        rules = derive(tx)
        if rules is None:
            return Verified((), {})
        compared = (
            (GENERAL_RULES, stored(tx), rules),
            (PREFERRED, tx.run("lessons.preferred"), preferred(tx)),
        )
        differences = chain.from_iterable(kind.compare(*rows) for kind, *rows in compared)
        return Verified(differences, {kind.name: len(rows) for kind, _, rows in compared})

    def mend(self, tx: Transaction, page: Page) -> Rebuilt:  # noqa: ARG002 - the only one
        """Derive them again if there was a consolidation."""
        tx.run("consolidation.hold", id=consolidation_id(tx.ns))
        renew(tx)
        return Rebuilt()


def derive(tx: Transaction) -> list[Row] | None:
    """Derive the general rules; None if none were, or an episode was learned since."""
    state = _state(tx)
    if state["stamp"] != state["episodes"]:
        return None
    rows, _, stamp = _find(tx, float(state["z"]))
    return None if stamp is None else rows


def lock(tx: Transaction) -> bool:
    """Lock the consolidation until the transaction ends; return False if there is none."""
    ids = [consolidation_id(tx.ns)]
    return bool(tx.run("maintenance.lock_consolidations", ids=ids)[0]["locked"])


def stored(tx: Transaction) -> list[Row]:
    """Return the stored general rules from repetition, as they are derived."""
    return [_sorted(row) for row in _rules(tx) if row["source"] != MODEL]


def drop(tx: Transaction, episode_ids: Sequence[str]) -> Touched:
    """Remove the rules of models that were sent one of these episodes.

    Call it in the transaction that erases them, before erasing, and :func:`renew` afterwards, when
    the counts of tasks and rules are correct again. Its return value makes :func:`renew` faster.
    """
    lock(tx)
    state = _state(tx)
    said = defaultdict[str, set[str]](set)
    for row in tx.run("consolidation.touched", ids=list(episode_ids)):
        said[row["kind"]].add(row["text"])
    if said["model"]:
        tx.run("erasing.drop_general_rules", ids=sorted(said["model"]))
    return Touched(
        strategies=said["strategy"],
        wordings={*map(normalized, said["strategy"] | said["sentence"])} - {""},
        told=bool(said["summary"]),
        current=state["stamp"] == state["episodes"],
    )


def renew(tx: Transaction, touched: Touched | None = None, strategies: Sequence[str] = ()) -> None:
    """Derive general rules and alternatives again, if there was a consolidation.

    All of them, or, with the result of :func:`drop`, those that may have changed as episodes were
    erased that used ``strategies`` (ids). Rules of models stay. The time of the next consolidation
    does not change. If no episode is left, the consolidation is removed with all general rules.
    """
    state, identity = _state(tx), consolidation_id(tx.ns)
    episodes = int(state["episodes"])
    if lock(tx) and not episodes:
        tx.run("consolidation.close", ids=[identity])
    if not lock(tx):
        tx.run("lessons.clear_preferred")
        return
    rules = [row for row in _rules(tx) if row["source"] != MODEL]
    # There is no quantile yet while the first consolidation runs.
    z = tx.settings.z if touched is None or state["z"] is None else float(state["z"])
    if touched is None:
        rows, _, stamp = _find(tx, z)
    else:
        said = _rules_of_summaries(tx, {}) if touched.told else []
        told = [row for row in rules if touched.told and row["source"] == SUMMARIES]
        rules = [
            row
            for row in rules
            if row["source"] == REPETITION
            and (row["text"] in touched.strategies or normalized(row["text"]) in touched.wordings)
        ]
        named = {*touched.strategies, *(row["text"] for row in rules)}
        rows = _derive(tx, z, said, named, touched.wordings)
        rules += told
        stamp = episodes if touched.current else None
    _replace(tx, {row["id"] for row in rules}, rows)
    tx.run("consolidation.note", id=identity, episodes=episodes, stamp=stamp, z=z)
    if touched is None or touched.current:
        refresh_preferred(tx)
    else:  # they are older than the latest episodes anyway
        tx.run("lessons.clear_preferred", ids=list(strategies))


def renew_preferred(tx: Transaction) -> None:
    """Link anti-patterns to their alternatives again, unless there are newer episodes."""
    if lock(tx) and (state := _state(tx))["stamp"] == state["episodes"]:
        refresh_preferred(tx)


def count_new(reader: Reader) -> int:
    """Return the number of episodes since the last consolidation."""
    state = _state(reader)
    return int(state["episodes"]) - int(state["before"] or 0)


def _state(reader: Reader) -> Row:
    return reader.read("consolidation.state", id=consolidation_id(reader.ns))[0]


def _find(tx: Transaction, z: float) -> tuple[list[Row], int, int | None]:
    """Return the rules, the number of episodes, and the same, or None if it changed meanwhile."""
    before = _state(tx)
    rows = _derive(tx, z, _rules_of_summaries(tx, {}))
    episodes = int(before["episodes"])
    return rows, episodes, episodes if _state(tx) == before else None


def _replace(
    tx: Transaction, before: Collection[str], rows: list[Row], sent: Collection[str] = ()
) -> None:
    """Write rules with their evidence (and the episodes ``sent``), instead of some (ids)."""
    if gone := sorted({*before, *(row["id"] for row in rows)}):
        tx.run("erasing.drop_general_rules", ids=gone)
    for row in rows:
        row["links"] = [
            {"supports": side == "supporting", "sent": False, **link}
            for side in ("supporting", "opposing")
            for link in row[side]
        ]
        row["links"] += [{"episode": one, "sent": True} for one in sorted(sent)]
    if rows:
        tx.run("consolidation.create", id=consolidation_id(tx.ns), rows=rows)


class AgentRules:
    """The general rules of agents, as of the last consolidation; those of the latest are kept."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._latest: tuple[tuple[object, ...], list[Row]] = (), []

    def of(self, view: View) -> list[Row]:
        """Return the general rules of a reader that may not read everything."""
        state = _state(self._graph)
        seen = map(str, view.filters(self._graph).values())
        basis = state["at"], state["z"], state["renewals"], *seen
        held = self._latest  # another thread may put those of another agent there
        if held[0] != basis:
            self._latest = held = basis, general_rules_of(self._graph, view, until=state["at"])
        return held[1]


def general_rules_of(reader: Reader, view: View, until: int | None = None) -> list[Row]:
    """Return the general rules of a reader, best supported first.

    For one that may not read everything they are derived from the episodes that it may read,
    recorded ``until`` a time in milliseconds (None: all). A model's rules are among them if the
    model was sent nothing else. Rows are those of :func:`stored`, with ``source``, with
    ``supporting`` and ``opposing`` as counts, and ``episodes`` and ``against`` as samples
    {episode, at}.
    """
    state = _state(reader)
    if state["z"] is None:
        return []
    held = _rules(reader)
    if view.agents is not None:
        seen = view.filters(reader)
        counted = {**seen, "until": until}
        held = [row for row in held if row["source"] == MODEL]
        if held:
            ids = [row["id"] for row in held]
            sent = {row["id"] for row in reader.read("access.sent_rules", ids=ids, **seen)}
            held = [row for row in held if row["id"] in sent]
        said = _rules_of_summaries(reader, counted) if state["told"] else []
        held += _derive(reader, state["z"], said, seen=counted)
    rows = [
        {
            **row,
            "episodes": row["supporting"],
            "against": row["opposing"],
            "supporting": row["worked"] if row["verdict"] == "WORKS" else row["failed"],
            "opposing": row["blamed"] if row["verdict"] == "WORKS" else row["praised"],
        }
        for row in held
    ]
    return sorted(rows, key=lambda row: (row["source"] == MODEL, -_support(row), row["id"]))


def _derive(
    reader: Reader,
    z: float,
    said: list[Row],
    strategies: set[str] | None = None,
    wordings: set[str] | None = None,
    seen: dict[str, Any] | None = None,
) -> list[Row]:
    """Return the general rules from repetition, by id; ``said`` are those from summaries.

    With ``wordings``, only those of sentences with one of these normalized forms, of ``strategies``
    (texts), and of strategies equal to one of these sentences.
    """
    options = ("agents",) if seen else ()

    def read(name: str, **asked: object) -> list[Row]:
        return reader.read(name, *options, **asked, **(seen or {}))

    groups = _groups(read("consolidation.sentences"), wordings)
    asked: Iterable[dict[str, Any]] = [{}]
    if not seen:
        texts = None
        if wordings is not None:
            texts = sorted({*(strategies or ()), *(group["text"] for group in groups)})
        every = reader.read("forecasting.totals")[0]["trials"] if texts is None else 0
        asked = (
            {"texts": texts, "first": first, "beyond": beyond}
            for first, beyond in ranges(every, USES)
        )
    rows: list[Row] = []
    find, limits = "consolidation.likely_strategies", {"z_value": z}
    likely = [row for only in asked for row in read(find, **limits, **only)]
    for ids in weighed(((row["id"], row["counted"]) for row in likely), USES):
        rows += read("consolidation.repeated_strategies", ids=ids)
    if groups:
        rows += read("consolidation.repeated_sentences", rows=groups)
    by_id = {row["id"]: _sorted(row) for row in said}
    for row in rows:
        identity = rule_id(reader.ns, "", row["text"])
        before = by_id.get(identity)
        if before is None or _support(row) > _support(before):
            by_id[identity] = _sorted({"id": identity, "source": REPETITION, **row})
    return [by_id[identity] for identity in sorted(by_id)]


def _rules_of_summaries(reader: Reader, seen: Mapping[str, Any]) -> list[Row]:
    """Return the rules from summaries; ``seen`` says whose episodes count (none: all).

    A clause that is part of a longer one of the same episodes is no rule of its own.
    """
    told = reader.read("consolidation.summaries", *(("agents",) if seen else ()), **seen)
    there: dict[str, Counter[bool]] = {}
    forms: dict[str, set[str]] = {}
    saying: dict[str, list[Row]] = {}
    for row in told:
        there.setdefault(row["task"], Counter())[row["good"]] += 1
        for wording, clause in clauses(row["summary"]).items():
            saying.setdefault(wording, []).append(row)
            forms.setdefault(wording, set()).add(clause)
    rows: list[Row] = []
    longer: dict[tuple[str, ...], list[str]] = {}
    for wording in sorted(saying, key=lambda wording: (-len(wording), wording)):
        found = saying[wording]
        episodes = tuple(row["id"] for row in found)
        wholes = longer.setdefault(episodes, [])
        if len(found) < REPEATED or any(f" {wording} " in f" {whole} " for whole in wholes):
            continue
        wholes.append(wording)
        tasks = {row["task"] for row in found}
        text = min(forms[wording], key=lambda text: (len(text), text))
        rows.append(
            {
                "id": node_id(reader.ns, "Rule", "", SUMMARIES, text),
                "text": text,
                "episodes": list(episodes),
                "praised": sum(there[task][True] for task in tasks),
                "blamed": sum(there[task][False] for task in tasks),
            }
        )
    rules = reader.read("consolidation.shown", rows=rows) if rows else []
    return [{"source": SUMMARIES, **row} for row in rules]


def _groups(listed: Iterable[Row], wordings: set[str] | None) -> list[Row]:
    """Return sentences that may hold on several tasks: {text, rules}, named by the shortest."""
    by_wording: dict[str, list[Row]] = {}
    for row in listed:
        wording = normalized(row["text"]) if isinstance(row["text"], str) else None
        if wording and (wordings is None or wording in wordings):
            by_wording.setdefault(wording, []).append(row)
    return [
        {
            "text": min((row["text"] for row in rows), key=lambda text: (len(text), text)),
            "rules": [row["id"] for row in rows],
        }
        for _, rows in sorted(by_wording.items())
        if any(len({row["task"] for row in rows if row[side]}) > 1 for side in ("worked", "failed"))
    ]


def _support(row: Row) -> int:
    """Return the number of supporting minus contradicting episodes of a rule."""
    if row["verdict"] == "WORKS":
        return int(row["worked"] - row["blamed"])
    return int(row["failed"] - row["praised"])


def _sorted(row: Row) -> Row:
    names = ("agents", "task_types")
    return {**row, **{name: sorted(row[name] or (), key=str) for name in names}}


def _rules(reader: Reader) -> list[Row]:
    return reader.read("consolidation.stored", id=consolidation_id(reader.ns))
