"""A Sentinel file: its episodes, and what stands besides them, in and out.

Its list of episodes is ``episode_log``. The file is read twice, to check all of it and to learn
from it. No more than a batch of episodes is in memory. What an imported file held besides its log
stays as it is; each episode of no such file is then added as Sentinel adds one: its score, its
sentences, and its mistake cards, merged by type, task, worker and correct decision.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from pydantic import ConfigDict, Field, NonNegativeInt

from graphmem.errors import SeedingError, ValidationError, shown
from graphmem.ids import canonical_json
from graphmem.models.episodes import Episode
from graphmem.models.fields import Input, Name, checked
from graphmem.seeding import sentinel
from graphmem.seeding.reading import DamagedError, Limits, Values, parse_exact
from graphmem.seeding.sources import Source, damage
from graphmem.store.paging import weighed

AT_ONCE = 2_500
"""Most episodes of a Sentinel file in a statement. With fewer, and also with more, the transaction
of all of them takes more memory."""
BATCH_BYTES = 4_000_000  # a batch ends when so much of a file was read for it, to bound memory
SHOWN = 300  # most characters of a text on a card in the list
_SAID = ("bad_decision", "evidence", "lesson")
_KEY = ("mistake_type", "task_id", "worker_id", "correct_decision")
_CONSOLIDATED = "last_consolidated_at"


class _Card(Input):
    model_config = ConfigDict(extra="ignore")

    seen_count: NonNegativeInt | None = None
    first_seen_episode: NonNegativeInt | None = None
    last_seen_episode: NonNegativeInt | None = None


class _Rest(Input):
    """What must be right of the lists besides a log."""

    model_config = ConfigDict(extra="ignore")

    global_rules: Sequence[str] = Field(default_factory=list)
    mistakes: Sequence[str] = Field(default_factory=list)
    mistake_cards: Sequence[_Card] = Field(default_factory=list)
    successes: Sequence[str] = Field(default_factory=list)
    task_rules: dict[str, Sequence[str]] = Field(default_factory=dict)
    score_history: dict[str, Sequence[float]] = Field(default_factory=dict)
    total_episodes: NonNegativeInt = 0


class SentinelFile:
    """A Sentinel file to import; its name is that of its document."""

    def __init__(self, source: Source, name: str | None, limits: Limits) -> None:
        self.source = source
        self.name: str = checked("name", source.stem if name is None else name, Name)
        self.kept: list[str] = []  # the names of what it holds besides its episodes
        self._before = 0  # how many episodes came before those of its log
        self._limits = limits

    def check(self) -> str:
        """Check the whole file; return what it holds besides its episodes, as JSON."""
        wrong: ValidationError | None = None
        beside: dict[str, bytes] = {}
        count = 0
        for form in self._forms(beside):
            count += 1
            try:
                self._episode(form, count)
            except ValidationError as error:
                wrong = wrong or error
        rest = self._rest(beside)
        if wrong:
            raise wrong
        self._before = max(rest.get(sentinel.TOTAL, 0) - count, 0)
        self.kept = list(rest)
        return canonical_json(rest)

    def _rest(self, beside: Mapping[str, bytes]) -> dict[str, Any]:
        texts = (canonical_json(name).encode() + b":" + text for name, text in beside.items())
        if (excess := self._limits.excess(b"{" + b",".join(texts) + b"}")) is not None:
            remedy = "(`graphmem seed` learns the episodes alone)"
            raise self._error(f"what it holds beside its episodes {excess} {remedy}")
        rest: dict[str, Any] = {}
        where = ""
        try:
            for name, text in beside.items():
                where = f"{shown(name)} "
                rest[name] = parse_exact(text.decode())
            where = ""
            sentinel.check_version(rest.get("version"))
            _Rest(**rest)
        except ValidationError as error:
            raise self._error(f"{error.field}: {error.problem}") from None
        except (SeedingError, ValueError) as error:
            raise self._error(f"{where}{error}") from None
        return rest

    def batches(self) -> Iterator[list[tuple[Any, Episode]]]:
        """Return the forms with their episodes, some at a time."""
        read = (
            ((form, self._episode(form, number)), len(canonical_json(form)))
            for number, form in enumerate(self._forms(None), 1)
        )
        return weighed(read, BATCH_BYTES, AT_ONCE)

    def _forms(self, beside: dict[str, bytes] | None) -> Iterator[Any]:
        """Yield the forms; put the text of the rest there, if asked."""
        where, size = "", 0
        with self.source.open(self._limits) as (_, stream):
            values = Values(stream, self._limits)

            def take(name: str) -> None:
                nonlocal where, size
                where = shown(name)
                if beside is None or size > self._limits.record:
                    values.skip()
                else:
                    beside[name] = values.text()
                    size += len(name) + len(beside[name])

            try:
                if values.peek() not in (b"{", b""):
                    raise SeedingError(sentinel.NO_FILE)
                for number in sentinel.read_places(values, take):
                    where = f"{sentinel.LOG}.{number - 1}"
                    yield values.value(parse_exact)
            except ValidationError as error:
                raise self._error(f"{where} {error.problem}") from None
            except DamagedError as error:
                raise self._error(damage(stream) or error) from None
            except SeedingError as error:
                raise self._error(error) from None

    def _episode(self, form: Any, number: int) -> Episode:
        try:
            return sentinel.episode(form, source_key=f"{self.name}/{self._before + number}")
        except ValidationError as error:
            inner = "" if error.field == "episode" else f".{error.field}"
            field = f"{sentinel.LOG}.{number - 1}{inner}"
            raise ValidationError(field, error.value, error.problem, error.remedy) from None

    def _error(self, problem: object) -> SeedingError:
        return SeedingError(f"{self.source.name}: {problem}; nothing was imported")


class Lists:
    """What stands besides the log of an export."""

    def __init__(self, rest: Mapping[str, Any], consolidated: int | None) -> None:
        fresh = {"version": sentinel.VERSION, _CONSOLIDATED: consolidated, **dict(_Rest())}
        self._before = {name: canonical_json(value) for name, value in rest.items()}
        self._all = {**rest, **{k: v for k, v in fresh.items() if k not in rest}}
        self._cards: dict[str, dict[str, Any]] = {}
        for card in self._all["mistake_cards"]:
            self._cards.setdefault(_key(card), card)
        self._sentences = {name: set(self._all[name]) for name in ("mistakes", "successes")}

    def add(self, content: Mapping[str, Any], number: int) -> None:
        """Add an episode, by its content and its number among all."""
        task = str(content.get("task_key", content["task"]))
        self._all["score_history"].setdefault(task, []).append(content["score"])
        for name, known in self._sentences.items():
            new = [text for text in dict.fromkeys(content.get(name, ())) if text not in known]
            self._all[name] += new
            known.update(new)
        for card in content.get("mistake_cards", ()):
            self._add_card(sentinel.card_form({"task": task, **card}), number)

    def add_rules(self, rules: Iterable[tuple[str | None, str]]) -> None:
        """Add rules that hold: the key of their task (None: all tasks), and their lines."""
        for task, line in rules:
            of_all = self._all["global_rules"]
            lines = of_all if task is None else self._all["task_rules"].setdefault(task, [])
            if line not in lines:
                lines.append(line)

    def finish(self, total: int) -> tuple[dict[str, Any], tuple[str, ...]]:
        """Return what stands besides the log, and the names that differ from imported file."""
        self._all[sentinel.TOTAL] = total
        self._all["mistake_cards"].sort(
            key=lambda card: (card.get("seen_count") or 0, card.get("last_seen_episode") or 0),
            reverse=True,
        )
        changed = tuple(
            name
            for name, value in self._all.items()
            if self._before.get(name) != canonical_json(value)
        )
        return self._all, changed

    def _add_card(self, form: dict[str, Any], number: int) -> None:
        said = {name: str(form.get(name) or "")[:SHOWN] for name in _SAID}
        known = self._cards.get(_key(form))
        if known is None:
            known = {name: form.get(name) for name in _KEY}
            known |= {**said, "seen_count": 0, "first_seen_episode": number}
            self._cards[_key(form)] = known
            self._all["mistake_cards"].append(known)
        known["seen_count"] = (known.get("seen_count") or 0) + 1
        known["last_seen_episode"] = number
        known |= {name: text for name, text in said.items() if text}


def _key(card: Mapping[str, Any]) -> str:
    return canonical_json([card.get(name) or "" for name in _KEY])
