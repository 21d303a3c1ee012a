"""Logs of Inspect (inspect_ai): a zip file ``.eval``, or one JSON object, of scored samples.

Mapping: the task is the sample's input, its key the sample's id, its type the task of the
evaluation; an episode is one epoch of a sample. The agent is the solver; tool calls and replies of
the messages are the steps, or the tool events where the messages hold no call. The outcome is a
score, by the name of its scorer: ``C``, ``P``, ``I`` and ``N`` are 1, .5, 0 and 0 as in Inspect, a
number is itself, and a score of several values has one outcome for each, ``SCORER.VALUE``. An error
that ended a sample is no outcome. The target is the solution and is never read; neither are the
model's raw calls.
"""

from __future__ import annotations

import json
import re
from collections.abc import Container, Iterator, Mapping
from functools import partial
from typing import Any, BinaryIO

from graphmem.errors import SeedingError, ValidationError
from graphmem.ids import canonical_json
from graphmem.models import MAX_TEXT, Step
from graphmem.seeding import chats
from graphmem.seeding.formats import Format, Origin, Record, Refused, Unsettled, read_record
from graphmem.seeding.reading import BOM, DamagedError, Limits, Values, reason_of
from graphmem.seeding.zips import MAGIC, Members, open_zip

_OWN = (b"_journal/", b"samples/", b"header.json", b"summaries.json", b"reductions.json")
"""The prefix of the names of members."""
_HEADERS = ("header.json", "_journal/start.json")
_HEAD = ("eval", "plan")
"""Members of a log that hold for all samples."""
_SAMPLE = re.compile(r"samples/.+_epoch_\d+\.json")
_CHUNKED = re.compile(r"samples/.+_epoch_\d+/sample\.json")
_ATTACHED = "attachment://"
_REFERENCE = re.compile(rb"attachment://(\w+)")
_TOOL = re.compile(rb'"event"\s*:\s*"tool"')
_SCORES: dict[str, bool | float] = {"C": True, "I": False, "N": False, "P": 0.5}
_WORDS = {"yes": True, "true": True, "no": False, "false": False}
_KNOWN = frozenset(
    {
        *("id", "epoch", "input", "messages", "scores", "error", "uuid", "invalidation", "events"),
        *("started_at", "completed_at", "total_time", "attachments"),
    }
)
_PASSED = frozenset(
    {
        *("target", "choices", "output", "store", "timelines", "events_data", "model_usage"),
        *("role_usage", "files", "setup", "sandbox", "error_retries", "score"),
    }
)
"""Members of a sample that are skipped: the solution, and what would fill the memory."""


def detect(head: bytes) -> bool:
    """Return whether it is a zip file of Inspect, or an object with the ``eval`` of a run."""
    if head.startswith(MAGIC):
        length = int.from_bytes(head[26:28], "little")
        return head[30 : 30 + length].startswith(_OWN)
    text = head.removeprefix(BOM).lstrip()
    return text.startswith(b"{") and all(
        name in text for name in (b'"version"', b'"status"', b'"eval"', b'"run_id"')
    )


def read(stream: BinaryIO, origin: Origin) -> Iterator[Record]:
    """Yield the samples of a log.

    Raises:
        SeedingError: it is no log of Inspect, or more than the limits allow.
    """
    peek = getattr(stream, "peek", None)
    if peek is None:
        raise SeedingError("inspect needs a buffered stream")
    if peek(len(MAGIC)).startswith(MAGIC):
        with open_zip(stream, origin.limits) as members:
            yield from _of_members(members, origin)
    else:
        yield from _of_object(Values(stream, origin.limits), origin)


def _of_members(members: Members, origin: Origin) -> Iterator[Record]:
    """Yield the samples of a zip file."""
    name = next((name for name in _HEADERS if name in members), None)
    if name is None:
        raise SeedingError(f"the zip file has no {_HEADERS[0]}")
    try:
        with members.open(name) as content:
            header = _Reduced(Values(content, origin.limits), origin.limits).read(_HEAD)
    except ValidationError as error:
        raise SeedingError(f"{name}: {error}") from None
    run = _run(header.get("eval"), header.get("plan"))
    number = 0
    for name in members:
        if _SAMPLE.fullmatch(name) or _CHUNKED.fullmatch(name):
            number += 1
            yield _member(members, name, number, run, origin.limits)


def _member(
    members: Members, name: str, number: int, run: Mapping[str, Any], limits: Limits
) -> Record:
    """Return the sample in a member, or in several beside it."""

    def sample() -> Any:
        with members.open(name) as content:
            reduced = _Reduced(Values(content, limits), limits)
            if _CHUNKED.fullmatch(name):
                return _put_together(reduced, members, name, limits)
            return reduced.read(_Rest())

    try:
        return read_record(number, "sample", sample, partial(_episode, number, run=run))
    except DamagedError as error:  # the other members can be read
        return Refused(number, "sample", f"{name}: {error}")


def _of_object(values: Values, origin: Origin) -> Iterator[Record]:
    """Yield the samples of a JSON object."""
    seen: dict[str, Any] = {}
    for name in values.members():
        if name in _HEAD:
            seen[name] = _value(values)
        elif name == "samples" and values.peek() == b"[":
            run = _run(seen.get("eval"), seen.get("plan"))
            for number in values.items():
                reduced = _Reduced(values, origin.limits)
                make = partial(_episode, number, run=run)
                yield read_record(number, "sample", partial(reduced.read, _Rest()), make)
        else:
            values.skip()
    values.end()


def _value(values: Values) -> Any:
    try:
        return _parsed(values.text())
    except ValidationError as error:
        raise SeedingError(f"the head of the log: {error.problem}") from None


def _run(spec: Any, plan: Any) -> dict[str, Any]:
    """Return what holds for all samples."""
    if not isinstance(spec, Mapping) or not isinstance(spec.get("task"), str):
        raise SeedingError("the log does not say its task in `eval`, before its samples")
    steps = plan.get("steps") if isinstance(plan, Mapping) else None
    named = [step.get("solver") for step in steps or () if isinstance(step, Mapping)]
    solver = spec.get("solver") or (named[-1] if named else None)
    known = spec.get("eval_id") or spec.get("run_id") or spec.get("task_id")
    return {
        "task": spec["task"],
        "model": spec.get("model"),
        "solver": solver,
        "id": known,
        "eval": spec,
    }


class _Rest:
    """All names of members except the skipped ones."""

    def __contains__(self, name: object) -> bool:
        return name not in _PASSED


class _Reduced:
    """The needed part of an object, read a member at a time, as one record within limits."""

    def __init__(self, values: Values, limits: Limits) -> None:
        self._values = values
        self._limits = limits
        self._size = 0
        self._problem: ValidationError | None = None
        self._texts: dict[str, bytes] = {}

    def read(self, wanted: Container[str]) -> Any:
        """Return the wanted members; of the lists in a sample, what belongs to them.

        Raises:
            ValidationError: they are over the limits; the reader can go on after the object.
        """
        for name in self._values.members():
            first = self._values.peek()
            if name == "events" and first == b"[":
                self._texts[name] = b"[" + b",".join(self._events()) + b"]"
            elif name == "attachments" and first == b"{":
                self._texts[name] = b"{" + b",".join(self._attachments()) + b"}"
            elif name not in wanted:
                self._values.skip()
            elif (text := self._text()) is not None:
                self._texts[name] = text
        return self.parsed()

    def add(self, name: str, parts: Iterator[tuple[int, bytes]]) -> None:
        """Add an object that was read elsewhere, by number."""
        pairs = (b'"%d":%s' % (at, text) for at, text in parts if self._fits(text))
        self._texts[name] = b"{" + b",".join(pairs) + b"}"

    def parsed(self) -> Any:
        """Return what was read.

        Raises:
            ValidationError: it is not within limits.
        """
        if self._problem is not None:
            raise self._problem
        pairs = (json.dumps(name).encode() + b":" + text for name, text in self._texts.items())
        whole = b"{" + b",".join(pairs) + b"}"
        reason = self._limits.excess(whole)
        if reason is not None:
            raise ValidationError("record", None, reason)
        return _parsed(whole)

    def _text(self) -> bytes | None:
        """Return the text of the next value, unless it is too much."""
        try:
            text = self._values.text()
        except ValidationError as error:
            self._problem = self._problem or error
            return None
        return text if self._fits(text) else None

    def _fits(self, text: bytes) -> bool:
        self._size += len(text)
        if self._size > self._limits.record:
            error = ValidationError("record", None, self._limits.too_long)
            self._problem = self._problem or error
        return self._problem is None

    def _events(self) -> Iterator[bytes]:
        """Yield the events of tools, unless the messages tell of them."""
        told = b'"tool_calls"' in self._texts.get("messages", b"")
        for _ in self._values.items():
            try:
                text = self._values.text()
            except ValidationError:  # one of a model, which may be large
                continue
            if not told and _TOOL.search(text) is not None and self._fits(text):
                yield text

    def references(self) -> set[bytes]:
        """Return the names of attachments that what was read refers to."""
        return {name for text in self._texts.values() for name in _REFERENCE.findall(text)}

    def _attachments(self) -> Iterator[bytes]:
        """Yield what other members refer to."""
        wanted = self.references()
        for name in self._values.members():
            if name.encode() not in wanted:
                self._values.skip()
            elif (text := self._text()) is not None:
                yield json.dumps(name).encode() + b":" + text


def _put_together(reduced: _Reduced, members: Members, name: str, limits: Limits) -> dict[str, Any]:
    """Return a sample whose messages and attachments stand in members beside its own."""
    folder = name.removesuffix("sample.json")
    spans = reduced.read(_Rest()).get("message_refs") or []
    if sum(end - start for start, end in spans) > limits.values:
        raise ValidationError("record", name, limits.too_many)
    wanted = [at for start, end in spans for at in range(start, end)]
    reduced.add("held", _chunks(members, f"{folder}messages", set(wanted), limits))
    numbers = {int(one) for one in reduced.references() if one.isdigit()}
    reduced.add("attachments", _chunks(members, f"{folder}attachments", numbers, limits))
    sample: dict[str, Any] = reduced.parsed()
    held = sample.pop("held")
    sample["messages"] = [held[str(at)] for at in wanted if str(at) in held]
    sample.pop("message_refs", None)
    if f"{folder}metadata.json" in members:
        with members.open(f"{folder}metadata.json") as content:
            sample["metadata"] = Values(content, limits).value()
    return sample


def _chunks(
    members: Members, folder: str, wanted: Container[int], limits: Limits
) -> Iterator[tuple[int, bytes]]:
    """Yield the items that are wanted of a list in chunks, each named by its first number."""
    for name in members.within(folder):
        first = name.removeprefix(f"{folder}/").removesuffix(".json")
        if not first.isdecimal():
            continue
        with members.open(name) as content:
            values = Values(content, limits)
            for at in values.items():
                place = int(first) + at - 1
                if place in wanted:
                    yield place, values.text()
                else:
                    values.skip()


def _parsed(text: str | bytes) -> Any:
    """Parse JSON in which a number may be none, as Inspect writes what was not scored.

    Raises:
        ValidationError: it is no JSON, or not UTF-8.
    """
    try:
        return json.loads(text, parse_constant=str)
    except ValueError as error:
        raise ValidationError("record", None, reason_of(error, "is not JSON: ")) from None


def _episode(number: int, sample: dict[str, Any], run: Mapping[str, Any]) -> Unsettled:
    """Return the episode of a sample, with the outcomes of its scorers."""
    attached = sample.get("attachments") or {}
    if attached:
        for name in ("input", "messages", "events"):
            sample[name] = _resolved(sample.get(name), attached)
    given = sample["input"]
    task = given if isinstance(given, str) else _asked(given)
    if sample.get("invalidation"):
        raise ValidationError("sample", sample.get("id"), "was invalidated")
    messages = [_message(one) for one in sample.get("messages") or ()]
    steps = list(chats.steps(messages))
    if not chats.tools(steps) and sample.get("events"):
        steps = [_step(one) for one in sample["events"] if one.get("event") == "tool"] + steps
    error = sample.get("error") or {}
    scores = sample.get("scores") or {}
    extra = {name: value for name, value in sample.items() if name not in _KNOWN}
    extra |= {"epoch": sample["epoch"], "model": run["model"]}
    place = f"{sample['id']}/{sample['epoch']}"
    return Unsettled(
        number,
        {
            "task": chats.cut_task(task),
            "task_key": str(sample["id"]),
            "task_type": run["task"],
            "agent": run["solver"] or run["model"],
            "steps": tuple(steps),
            "error": (error.get("message") or "")[:MAX_TEXT] or None,
            "started_at": sample.get("started_at"),
            "ended_at": sample.get("completed_at"),
            "duration": sample.get("total_time"),
            "source_key": f"{run['id']}/{place}",
            "source": "inspect",
            "extra": {name: value for name, value in extra.items() if value not in (None, {}, [])},
        },
        outcomes=dict(_outcomes(scores)),
        names=[name for name in (sample.get("uuid"), place, str(sample["id"])) if name],
        tools=chats.tools(steps),
        model=run["model"],
        record={**sample, "eval": run["eval"]},
        unknown=_unknown(scores, error),
    )


def _outcomes(scores: Mapping[str, Any]) -> Iterator[tuple[str, bool | float]]:
    """Yield the verdict of each scorer."""
    for name, score in scores.items():
        value = score.get("value")
        for key, one in value.items() if isinstance(value, Mapping) else (("", value),):
            outcome = _outcome(one)
            if outcome is not None:
                yield f"{name}.{key}" if key else name, outcome


def _outcome(value: Any) -> bool | float | None:
    if isinstance(value, str):
        if value in _SCORES:
            return _SCORES[value]
        return _WORDS.get(value.lower())
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int | float) and 0 <= value <= 1:
        return float(value)
    return None


def _unknown(scores: Mapping[str, Any], error: Mapping[str, Any]) -> ValidationError:
    """Return what to say of a sample without an outcome."""
    given = {name: score.get("value") for name, score in scores.items()}
    if given:
        return ValidationError(
            "score", canonical_json(given), "is neither C, P, I or N nor a number in [0, 1]"
        )
    why = "an error ended it" if error else "it has no score"
    return ValidationError("outcome", None, f"is unknown: {why}", "join one with --outcomes")


def _asked(messages: Any) -> str:
    said = [chats.text_of(one.get("content")) for one in messages if one.get("role") == "user"]
    return "\n\n".join(text for text in said if text)


def _message(message: dict[str, Any]) -> dict[str, Any]:
    """Return a message with its error in the form of chats."""
    error = message.get("error")
    if not error:
        return message
    return {**message, "is_error": True, "content": message.get("content") or error.get("message")}


def _step(event: Mapping[str, Any]) -> Step:
    error = event.get("error") or {}
    return Step(
        action_type=event["function"],
        action=event.get("arguments"),
        observation=chats.cut_text(chats.text_of(event.get("result"))),
        error=chats.cut_text(error.get("message")),
    )


def _resolved(value: Any, attached: Mapping[str, Any]) -> Any:
    """Return a value with the texts that were stored apart."""
    if isinstance(value, str):
        if value.startswith(_ATTACHED):
            return attached.get(value.removeprefix(_ATTACHED), value)
        return value
    if isinstance(value, list):
        return [_resolved(one, attached) for one in value]
    if isinstance(value, dict):
        return {name: _resolved(one, attached) for name, one in value.items()}
    return value


FORMAT = Format("inspect", "Inspect (inspect_ai) logs, .eval or JSON: scored samples", detect, read)
FORMATS = (FORMAT,)
