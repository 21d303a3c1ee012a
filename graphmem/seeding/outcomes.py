"""Outcomes that a log lacks, joined by key: a CSV file, or a JSON report of what was resolved."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, Self

from graphmem.errors import SeedingError, ValidationError, shown
from graphmem.seeding.reading import BOM, Limits, Values, reason_of
from graphmem.seeding.sources import Source, damage

EXAMPLES = 20
"""Most keys without a record in a report."""
KEY, SUCCESS, SCORE, OUTCOME = _COLUMNS = "key", "success", "score", "outcome"
"""The columns of a table; ``outcome`` is either of the two before."""
_WORDS = dict.fromkeys(("true", "yes", "1", "1.0"), True) | dict.fromkeys(
    ("false", "no", "0", "0.0"), False
)
_RESOLVED = ("resolved_ids", "resolved")
_UNRESOLVED = ("unresolved_ids", "unresolved", "empty_patch_ids")
_EVALUATED = ("completed_ids",)
"""Ids that were evaluated; those that a report does not call resolved failed."""


@dataclass(slots=True)
class Joined:
    """An outcome by key, and the source key of the record that it was joined to."""

    success: bool | None = None
    score: float | None = None
    record: str | None = None


class Outcomes:
    """Outcomes by key."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._by_key: dict[str, Joined] = {}

    @classmethod
    def of(cls, given: str | Mapping[str, bool | float], limits: Limits) -> Self:
        """Return outcomes from a file, or from a mapping.

        Raises:
            SeedingError: the file cannot be read, says something twice, or is neither CSV nor a
                report; or an outcome is neither a success nor a score in [0, 1].
            ValidationError: it is neither the name of a file nor a mapping from texts.
        """
        if not isinstance(given, str):
            if not isinstance(given, Mapping) or not all(isinstance(key, str) for key in given):
                raise ValidationError("outcomes", given, "must be a file, or a mapping from keys")
            outcomes = cls("outcomes")
            for key, value in given.items():
                outcomes._add(key, value, f"key {shown(key, 80)}")
            return outcomes
        source = Source(given)
        outcomes = cls(source.name)
        with source.open(limits) as (head, stream):
            if head.removeprefix(BOM).lstrip()[:1] in (b"{", b"["):
                outcomes._read_report(Values(stream, limits))
            else:
                outcomes._read_table(stream)
            if (ended := damage(stream)) is not None:
                raise SeedingError(f"{source.name}: {ended}")
        if not outcomes._by_key:
            raise SeedingError(f"{source.name}: has no outcomes")
        return outcomes

    def find(self, source_key: str | None, names: Sequence[str] = ()) -> Joined | None:
        """Return the outcome of a record.

        Raises:
            ValidationError: the same key joined it to another record before.
        """
        if source_key is None:
            return None
        for key in (source_key, *names):
            joined = self._by_key.get(key)
            if joined is None:
                continue
            if joined.record not in (None, source_key):
                raise ValidationError(
                    "outcome",
                    key,
                    f"is the key of another record, too: of {shown(joined.record, 80)}",
                    "seed only the logs that the outcomes are of, or name records by their source "
                    f"keys; this one is {shown(source_key, 80)}",
                )
            joined.record = source_key
            return joined
        return None

    def without_record(self) -> Iterator[str]:
        """Yield the keys that no record has."""
        return (key for key, joined in self._by_key.items() if joined.record is None)

    def _add(self, key: str, value: Any, where: str) -> None:
        if isinstance(value, bool):
            self._put(key, Joined(success=value), where)
        else:
            self._put(key, Joined(score=self._score(value, where)), where)

    def _put(self, key: str, joined: Joined, where: str) -> None:
        known = self._by_key.setdefault(key, joined)
        if known != joined:
            raise SeedingError(f"{self.name}: {where}: {shown(key, 80)} has two outcomes")

    def _read_table(self, stream: BinaryIO) -> None:
        text = io.TextIOWrapper(stream, "utf-8-sig", newline="")
        rows = csv.reader(text, strict=True)
        try:
            first = next(rows, [])
            names = [name.strip().lower() for name in first]
            columns = {name: names.index(name) for name in _COLUMNS if name in names}
            if KEY not in columns and not columns and len(first) == 2:
                columns = {KEY: 0, OUTCOME: 1}
                self._row(first, columns, "line 1")
            elif KEY not in columns or len(columns) == 1:
                raise SeedingError(
                    f"{self.name}: the columns are {shown(first)}; there must be {KEY}, and "
                    f"{SUCCESS} or {SCORE}"
                )
            for row in rows:
                if row:
                    self._row(row, columns, f"line {rows.line_num}")
        except (csv.Error, UnicodeDecodeError) as error:
            line = rows.line_num + 1
            if isinstance(error, UnicodeDecodeError):  # a block of lines is decoded at once
                line += error.object[: error.start].count(b"\n")
            raise SeedingError(f"{self.name}: line {line}: {reason_of(error)}") from None
        finally:
            text.detach()

    def _row(self, row: Sequence[str], columns: Mapping[str, int], where: str) -> None:
        cells = {name: row[at].strip() if at < len(row) else "" for name, at in columns.items()}
        joined = Joined()
        outcome = cells.get(OUTCOME, "")
        is_word = outcome.lower() in _WORDS
        if said := cells.get(SUCCESS) or (outcome if is_word else ""):
            joined.success = _WORDS.get(said.lower())
            if joined.success is None:
                problem = f"success {shown(said, 80)} is neither true nor false"
                raise SeedingError(f"{self.name}: {where}: {problem}")
        if said := cells.get(SCORE) or ("" if is_word else outcome):
            joined.score = self._score(said, where)
        if not cells[KEY] or (joined.success is None and joined.score is None):
            raise SeedingError(f"{self.name}: {where}: a key or an outcome is missing")
        self._put(cells[KEY], joined, where)

    def _score(self, value: Any, where: str) -> float:
        try:
            score = float(value)
        except (TypeError, ValueError, OverflowError):
            score = -1.0
        if not 0 <= score <= 1:
            problem = "is neither a success nor a score in [0, 1]"
            raise SeedingError(f"{self.name}: {where}: {shown(value)} {problem}")
        return score

    def _read_report(self, values: Values) -> None:
        lists: dict[str, list[str]] = {}
        others: dict[str, Any] = {}
        try:
            for name in values.members():
                value = values.value()
                if isinstance(value, list):
                    lists[name] = [one for one in value if isinstance(one, str)]
                else:
                    others[name] = value
            values.end()
        except (SeedingError, ValidationError) as error:
            raise SeedingError(f"{self.name}: is no report: {error}") from None
        if any(name in lists for name in _RESOLVED):
            resolved = {key for name in _RESOLVED for key in lists.get(name, ())}
            for key in resolved:
                self._put(key, Joined(success=True), "resolved")
            for name in (*_UNRESOLVED, *_EVALUATED):
                for key in lists.get(name, ()):
                    if name not in _EVALUATED or key not in resolved:
                        self._put(key, Joined(success=False), name)
            return
        for key, value in others.items():
            said = value.get("resolved") if isinstance(value, dict) else value
            self._add(key, said, f"key {shown(key, 80)}")
