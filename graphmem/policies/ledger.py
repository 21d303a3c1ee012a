"""The prediction ledger: expectations, actual outcomes, and reliability.

A prediction is a fact that changes once: it is resolved, or it expires. Resolving a prediction
about a policy gives a signal for the confidence in that policy: an event in the stream of the
policy's agent, written by the same statement.
"""

from __future__ import annotations

import builtins
import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import uuid4

from pydantic import JsonValue

from graphmem.errors import ConflictError, NotFoundError, ValidationError
from graphmem.graph.arguments import MOST, check_choice, check_limit, check_text, checked_agent
from graphmem.graph.graph import Graph, Reader, Transaction
from graphmem.graph.lookup import HasId, find_subject, subject_ids
from graphmem.ids import canonical_json, from_millis, node_id
from graphmem.models.fields import Moment, checked, millis
from graphmem.models.forecasts import CalibrationBin
from graphmem.models.policies import (
    Behaviour,
    Expectation,
    Outcome,
    Prediction,
    PredictionStatus,
    Reliability,
)
from graphmem.notebook import Listed
from graphmem.store.port import ChangedError, Row

# The numbers follow Popoto's PredictionLedger (PL_AUTO_RESOLVE_*); those of the confidence are
# defaults of ``predictions.resolve``.
FEEDBACK: Mapping[Behaviour, tuple[float, bool | None]] = {
    "acted": (0.1, True),
    "used": (0.3, True),
    "dismissed": (0.5, None),
    "contradicted": (0.9, False),
}
"""Behaviours with a subject: the implied error, and whether the prediction came true."""
BINS = 10
_EMPTY: Row = {"count": 0, "successes": 0, "mean": None, "share": None, "lower": 0.0, "upper": 1.0}
"""The numbers of a bin without predictions."""

Subject = str | HasId  # a policy or its id, a strategy, its id or its text, or any other text


class Predictions:
    """Stores the predictions of one namespace: ``memory.predictions``."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph

    def expect(
        self,
        subject: Subject,
        *,
        probability: float | None = None,
        outcome: Mapping[str, JsonValue] | None = None,
        agent: str | None = None,
        at: datetime | None = None,
        due: datetime | None = None,
        key: str | None = None,
    ) -> Prediction:
        """Store a prediction about a subject, durably; a subject can have many predictions.

        Args:
            subject: a policy or its id, a strategy, its id or its text, or any other text, which is
                then no more than a text (``kind`` "free").
            probability: the probability that it comes true, in [0, 1].
            outcome: the expected outcome, as a JSON object; give this, ``probability``, or both.
            agent: the predicting agent; default: the agent of the policy, else "default".
            at: the time of the prediction, with time zone; default: unknown.
            due: when it expires, with time zone; default: never.
            key: a key, unique in the namespace; a repeated call with it changes nothing and returns
                ``created=False``. Without a key every call is a new prediction.

        Raises:
            ValidationError: a field is wrong, or probability and outcome are both missing.
            ConflictError: the key exists with other content.
            NotFoundError: there is no such policy or strategy.
        """
        given = Expectation.from_arguments(locals())
        names = subject_ids(self._graph.ns, subject)
        identity = node_id(self._graph.ns, "Prediction", given.key or uuid4().hex)
        times = {"at": millis(given.at), "due_at": millis(given.due)}
        content = {"probability": given.probability, "expected": _json(given.outcome), **times}

        def work(tx: Transaction) -> Prediction:
            if given.key is not None and (stored := tx.run("predictions.get", ids=[identity])):
                _check_same(given, names, content, stored[0])
                return prediction_of(stored[0])
            about = find_subject(tx, names)
            if about is None and not isinstance(subject, str):
                problem = f"no policy or strategy {names[0]!r} in namespace {tx.ns!r}"
                raise NotFoundError(f"{problem}; learn it first, or give a text")
            about = about or {"id": names[0], "kind": "free", "owner": None}
            place = {"subject": about["id"], "kind": about["kind"]}
            place["agent"] = given.agent or about["owner"] or "default"
            if not tx.run("predictions.expect", id=identity, **place, **content):
                raise ChangedError("the subject was erased while this was written")
            return prediction_of(_row(tx, identity), created=True)

        return self._graph.transact(work)

    def resolve(
        self,
        prediction_id: str,
        *,
        actual: Mapping[str, JsonValue] | None = None,
        happened: bool | None = None,
    ) -> Prediction:
        """Resolve an open prediction by the actual outcome, once and durably, and store its error.

        If an outcome was expected and ``actual`` is given, the error is the mean over all names in
        either: for two numbers their distance, relative to the larger one or to 1; for other values
        0 if they are equal, else 1. Otherwise it is the distance between the probability and what
        ``happened``. A prediction about a policy changes the confidence in it.

        Give the ``actual`` outcome, as a JSON object, or whether it ``happened`` (came true;
        default: whether the error is under 0.5), or both.

        Raises:
            ValidationError: a field is wrong, the outcome cannot be compared with the expectation,
                or the prediction is no longer open.
            NotFoundError: there is no such prediction.
        """
        check_text("prediction_id", prediction_id)
        actual = checked("actual", actual, Outcome | None)
        happened = checked("happened", happened, bool | None)
        if actual is None and happened is None:
            remedy = "give it, or happened=True or False"
            raise ValidationError("actual", None, "is missing, so nothing came", remedy)
        came = {"happened": happened, "actual": _json(actual)}

        def work(tx: Transaction) -> Prediction:
            row = _row(tx, prediction_id)
            _check_open(row)
            compared = _comparable(actual, happened, row)
            if not tx.run("predictions.resolve", id=prediction_id, pairs=compared, **came):
                raise ChangedError("the prediction changed while this was written")
            return prediction_of(_row(tx, prediction_id))

        return self._graph.transact(work)

    def feedback(self, subject: Subject, how: Behaviour) -> Listed[Prediction]:
        """Resolve all open predictions about a subject by the behaviour toward it; return them.

        "acted" means an error of .1, "used" .3, "dismissed" .5, "contradicted" .9. The first two
        count as having happened, the last as not; "dismissed" leaves it open.
        """
        check_choice("how", how, FEEDBACK)
        error, happened = FEEDBACK[how]
        subjects = subject_ids(self._graph.ns, subject)
        given = {"error": error, "happened": happened, "how": how}

        def work(tx: Transaction) -> builtins.list[Prediction]:
            rows = tx.run("predictions.list", status="open", subjects=subjects, limit=MOST)
            rows.sort(key=lambda row: (row["created_at"], row["id"]))
            done = [tx.run("predictions.resolve", id=row["id"], **given) for row in rows]
            resolved = [row["id"] for answer in done for row in answer]
            return [prediction_of(row) for row in tx.run("predictions.get", ids=resolved)]

        return Listed(self._graph.transact(work))

    def expire(self, *, now: datetime | None = None) -> int:
        """Expire the open predictions that are due; return their number.

        They are due until ``now``, with time zone; default: the clock. An expired prediction cannot
        be resolved and does not count for reliability.
        """
        moment = millis(checked("now", now, Moment | None))
        until = {} if moment is None else {"now": moment}
        return int(self._graph.write("predictions.expire", **until)[0]["expired"])

    def get(self, prediction_id: str) -> Prediction:
        """Return a prediction.

        Raises:
            NotFoundError: there is none.
        """
        check_text("prediction_id", prediction_id)
        return prediction_of(_row(self._graph, prediction_id))

    def list(
        self,
        status: PredictionStatus | None = None,
        subject: Subject | None = None,
        limit: int = 100,
    ) -> Listed[Prediction]:
        """Return the latest predictions, latest recorded first, at most ``limit``.

        They are all, or "open", "resolved" or "expired" ones, or those about a subject as in
        :meth:`expect`.
        """
        check_limit(limit)
        state = checked("status", status, PredictionStatus | None)
        about = None if subject is None else subject_ids(self._graph.ns, subject)
        rows = self._graph.read("predictions.list", status=state, subjects=about, limit=limit)
        return Listed([prediction_of(row) for row in rows])

    def reliability(
        self, *, subject: Subject | None = None, agent: str | None = None
    ) -> Reliability:
        """Return the reliability of the probabilities of resolved predictions, in ten bins.

        They are all, or those about a subject as in :meth:`expect`, or those of an agent.
        """
        about = None if subject is None else subject_ids(self._graph.ns, subject)
        name = checked_agent(agent)
        [row] = self._graph.read("predictions.reliability", subjects=about, agent=name)
        places = {place["place"]: place for place in row.pop("places")}
        bins = tuple(
            CalibrationBin(low=n / BINS, high=(n + 1) / BINS, **places.get(n, _EMPTY))
            for n in range(BINS)
        )
        return Reliability(bins=bins, z=self._graph.settings.z, **row)


def _row(reader: Reader, prediction_id: str) -> Row:
    rows = reader.read("predictions.get", ids=[prediction_id])
    if not rows:
        raise NotFoundError(f"no prediction {prediction_id!r} in namespace {reader.ns!r}")
    return rows[0]


def prediction_of(row: Row, *, created: bool = False) -> Prediction:
    """Return the prediction of a procedure's row."""
    texts = {"outcome": row["expected"], "actual": row["actual"]}
    parsed = {name: json.loads(text) if text else None for name, text in texts.items()}
    times = {"at": "at", "due": "due_at", "recorded_at": "created_at", "resolved_at": "resolved_at"}
    moments = {name: from_millis(row[column]) for name, column in times.items()}
    return Prediction(**{**row, **parsed, **moments, "created": created})


def _json(outcome: Mapping[str, JsonValue] | None) -> str | None:
    return None if outcome is None else canonical_json(outcome)


def pairs(expected: str, actual: str) -> list[Row]:
    """Return the values of two JSON objects as pairs for ``predictions.resolve``, by name."""
    sides = [json.loads(text, parse_float=_whole) for text in (expected, actual)]
    rows: list[Row] = []
    for name in sorted({*sides[0], *sides[1]}):
        row: Row = dict.fromkeys(("p", "a", "predicted", "actual"))
        if all(type(side.get(name)) in (int, float) for side in sides):
            row["p"], row["a"] = (float(side[name]) for side in sides)
        else:
            row["predicted"], row["actual"] = (
                canonical_json(side[name]) if name in side else None for side in sides
            )
        rows.append(row)
    return rows


def _whole(text: str) -> int | float:
    """Return 1 for 1.0, so that both are equal as texts."""
    value = float(text)
    return int(value) if value.is_integer() else value


def _comparable(
    actual: Mapping[str, JsonValue] | None, happened: bool | None, row: Row
) -> list[Row] | None:
    """Return the pairs to compare, or None to compare the probability; raise if neither can be."""
    if actual is not None and row["expected"] is not None:
        return pairs(row["expected"], canonical_json(actual))
    if happened is None:
        problem = "is missing, and no outcome was expected"
        raise ValidationError("happened", None, problem, "give True or False")
    if row["probability"] is None:
        problem = "is missing, and no probability was given"
        raise ValidationError("actual", None, problem, "give a JSON object")
    return None


def _check_open(row: Row) -> None:
    if row["status"] == "open":
        return
    done = row["status"] == "resolved"
    moment = from_millis(row["resolved_at" if done else "due_at"])
    day = moment.isoformat(timespec="seconds") if moment else "an unknown day"
    problem = f"was resolved on {day}" if done else f"has expired: it was due on {day}"
    raise ValidationError("prediction_id", row["id"], problem)


def _check_same(
    given: Expectation, names: Sequence[str], content: Mapping[str, Any], stored: Row
) -> None:
    default = stored["agent"] if stored["kind"] == "policy" else "default"
    wanted = {
        # A subject that was free then can be a strategy now.
        "subject": stored["subject"] if stored["subject"] in names else names[0],
        "agent": given.agent or default,
        **content,
    }
    there = {name: stored[name] for name in wanted}
    if wanted != there:
        raise ConflictError(str(given.key), there, wanted, field="key", remedy="use another key")
