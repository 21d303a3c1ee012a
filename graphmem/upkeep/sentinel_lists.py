"""The lists besides the log of a Sentinel file: those of imported files, and later additions.

What an imported file held stays as it is. Each episode of no such file is then added as Sentinel
adds one: its score, its sentences, and its mistake cards, merged by type, task, worker and correct
decision.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from graphmem.errors import ValidationError
from graphmem.ids import canonical_json
from graphmem.seeding import sentinel

SHOWN = 300
"""Most characters of a text on a card in the list."""
_SAID = ("bad_decision", "evidence", "lesson")
_KEY = ("mistake_type", "task_id", "worker_id", "correct_decision")
_LISTS = ("global_rules", "mistakes", "mistake_cards", "successes")
_BY_TASK = ("task_rules", "score_history")
CONSOLIDATED = "last_consolidated_at"

Card = dict[str, Any]


class OwnLists:
    """What stands besides the log.

    Args:
        rests: what imported files held, without their logs.
        names: the names of these files.
        consolidated: how many episodes there were at the last consolidation; None: there was none.

    Raises:
        ValidationError: the files differ in what graphmem does not know.
    """

    def __init__(
        self, rests: Sequence[Mapping[str, Any]], names: Sequence[str], consolidated: int | None
    ) -> None:
        self.held: dict[str, Any] = {}
        for rest in rests:
            for name, value in rest.items():
                self._join(name, copy.deepcopy(value), names)
        self._before = {name: canonical_json(value) for name, value in self.held.items()}
        self.held.setdefault("version", sentinel.VERSION)
        self.held.setdefault(CONSOLIDATED, consolidated)
        for name in _LISTS:
            self.held.setdefault(name, [])
        for name in _BY_TASK:
            self.held.setdefault(name, {})
        self._cards: dict[str, Card] = {}
        for card in self.held["mistake_cards"]:
            self._cards.setdefault(_key(card), card)
        self._known = {name: set(self.held[name]) for name in ("mistakes", "successes")}

    def add(self, content: Mapping[str, Any], number: int) -> None:
        """Add an episode, by its content and its number among all."""
        task = str(content.get("task_key", content["task"]))
        self.held["score_history"].setdefault(task, []).append(content["score"])
        for name, known in self._known.items():
            new = [text for text in dict.fromkeys(content.get(name, ())) if text not in known]
            self.held[name] += new
            known.update(new)
        for card in content.get("mistake_cards", ()):
            self._add_card(sentinel.card_form({"task": task, **card}), number)

    def add_rules(self, rules: Iterable[tuple[str | None, str]]) -> None:
        """Add rules that hold: the key of their task (None: all tasks), and their lines."""
        for task, line in rules:
            of_all = self.held["global_rules"]
            lines = of_all if task is None else self.held["task_rules"].setdefault(task, [])
            if line not in lines:
                lines.append(line)

    def finish(self, total: int) -> tuple[dict[str, Any], tuple[str, ...]]:
        """Return what stands besides the log, and the names that differ from imported files."""
        self.held[sentinel.TOTAL] = total
        self.held["mistake_cards"].sort(key=_rank, reverse=True)
        changed = tuple(
            name
            for name, value in self.held.items()
            if self._before.get(name) != canonical_json(value)
        )
        return self.held, changed

    def _join(self, name: str, value: Any, names: Sequence[str]) -> None:
        held = self.held.setdefault(name, value)
        if held is value or name in (sentinel.TOTAL, CONSOLIDATED):
            return
        if name == "mistake_cards":
            held += value
        elif name in _LISTS:
            held += [item for item in value if item not in held]
        elif name == "score_history":
            for task, scores in value.items():
                held.setdefault(task, []).extend(scores)
        elif name == "task_rules":
            for task, rules in value.items():
                lines = held.setdefault(task, [])
                lines += [line for line in rules if line not in lines]
        elif canonical_json(held) != canonical_json(value):
            raise ValidationError(
                "document",
                None,
                f"the imported files {', '.join(names)} differ in {name!r}",
                "name the one to export",
            )

    def _add_card(self, form: Card, number: int) -> None:
        said = {name: str(form.get(name) or "")[:SHOWN] for name in _SAID}
        known = self._cards.get(_key(form))
        if known is None:
            known = {name: form.get(name) for name in _KEY}
            known |= {**said, "seen_count": 0, "first_seen_episode": number}
            self._cards[_key(form)] = known
            self.held["mistake_cards"].append(known)
        known["seen_count"] = (known.get("seen_count") or 0) + 1
        known["last_seen_episode"] = number
        known |= {name: text for name, text in said.items() if text}


def _key(card: Card) -> str:
    return canonical_json([card.get(name) or "" for name in _KEY])


def _rank(card: Card) -> tuple[int, int]:
    return card.get("seen_count") or 0, card.get("last_seen_episode") or 0
