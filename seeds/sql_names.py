"""Where the agent of sql_agent.py gets table and column names: guesses, or the real schema."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

# Words that people use for one another; what the agent knows of English, not of the schema.
SYNONYMS = [
    {"bike", "bicycle", "cycle"}, {"member", "customer", "rider", "client", "user"},
    {"hire", "rental", "ride", "trip", "booking"}, {"station", "stop", "location"},
    {"repair", "service", "maintenance"}, {"model", "product", "type"},
    {"name", "title", "label"}, {"town", "city", "place"}, {"tariff", "plan", "rate"},
    {"fee", "price", "amount", "charge"}, {"cost", "price", "amount", "expense"},
    {"kind", "type", "category"}, {"maker", "manufacturer", "brand"},
    {"condition", "status", "state"}, {"district", "area", "quarter"},
    {"capacity", "docks", "slots"}, {"duration", "minutes", "length", "time"},
    {"part", "component"}, {"date", "day", "on", "at"},
    {"registration", "joined", "entry", "signup"}, {"opening", "opened", "open"},
    {"departure", "out", "start", "begin"}, {"start", "from", "origin"},
    {"end", "to", "destination"},
]  # fmt: skip

KEYWORDS = {"at", "from", "on", "to"}
"""Parts of real names, but nobody would guess them as a whole name."""


def synonyms(word: str) -> list[str]:
    """Return other words for ``word``, sorted."""
    return sorted(set().union(*(group for group in SYNONYMS if word in group)) - {word})


@dataclass(frozen=True)
class Join:
    """A table to join: a column already in the query equals a column of the new table."""

    table: str
    known: str
    new: str


class Names(Protocol):
    """Where the agent gets its names from."""

    def table(self, noun: str) -> str:
        """Return the table for a noun."""

    def column(self, noun: str, attribute: str) -> str:
        """Return the column for an attribute of a noun."""

    def key(self, noun: str) -> str:
        """Return the column that identifies a row."""

    def joins(self, noun: str, other: str, role: str | None, child: str) -> list[Join]:
        """Return the joins from one noun to another; ``child`` is the one that refers."""


class OutOfNamesError(Exception):
    """Every name that came to mind was refused."""


@dataclass
class Guesser:
    """Names made up from the words of the question."""

    rng: random.Random
    chosen: dict[tuple[str, str], str] = field(default_factory=dict)
    refused: set[tuple[str, str, str]] = field(default_factory=set)

    def pick(self, noun: str, slot: str, candidates: dict[str, float]) -> str:
        """Return a name for one slot, the same until it is refused."""
        if (noun, slot) not in self.chosen:
            left = {
                name: weight
                for name, weight in candidates.items()
                if (noun, slot, name) not in self.refused
            }
            if not left:
                raise OutOfNamesError
            self.chosen[noun, slot] = self.rng.choices(list(left), list(left.values()))[0]
        return self.chosen[noun, slot]

    def refuse(self, message: str) -> bool:
        """Drop the name that an error message names; tell whether there was one."""
        m = re.search(r"no such (?:table|column): (?:(\w+)\.)?(\w+)", message)
        dropped = [
            (noun, slot, name)
            for (noun, slot), name in self.chosen.items()
            if m and name == m[2] and (slot == "table") == (m[1] is None)
            and (m[1] is None or self.chosen[noun, "table"] == m[1])
        ]  # fmt: skip
        for noun, slot, name in dropped:
            self.refused.add((noun, slot, name))
            del self.chosen[noun, slot]
        return bool(dropped)

    def table(self, noun: str) -> str:
        """Return the noun, its plural or a synonym."""
        others = dict.fromkeys(synonyms(noun), 1.0)
        return self.pick(noun, "table", {noun: 6.0, f"{noun}s": 3.0, **others})

    def column(self, noun: str, attribute: str) -> str:
        """Return the attribute, a synonym, or the attribute after the noun or a usual suffix."""
        others = {word: 1.0 for word in synonyms(attribute) if word not in KEYWORDS}
        more = {f"{noun}_{attribute}": 1.0, f"{attribute}_name": 0.5}
        name = self.pick(noun, attribute, {attribute: 6.0, **others, **more})
        return f"{self.table(noun)}.{name}"

    def key(self, noun: str) -> str:
        """Return id or the like."""
        name = self.pick(noun, "key", {"id": 6.0, f"{noun}_id": 3.0, "number": 0.5})
        return f"{self.table(noun)}.{name}"

    def joins(self, noun: str, other: str, role: str | None, child: str) -> list[Join]:
        """Return one join over a made-up foreign key; a way over a third table does not occur."""
        parent = other if child == noun else noun
        stem = f"{role}_{parent}" if role else parent
        names = {f"{stem}_id": 6.0, f"{stem}_no": 1.0, stem: 1.0, f"{stem}id": 1.0}
        link = f"{self.table(child)}.{self.pick(child, f'link to {stem}', names)}"
        key = self.key(parent)
        known, new = (link, key) if child == noun else (key, link)
        return [Join(self.table(other), known, new)]


@dataclass
class Schema:
    """Names found in the real schema, by how well they fit the words."""

    rng: random.Random
    columns: dict[str, list[str]]
    keys: dict[str, str]
    links: list[tuple[str, str, str, str]]
    """(table, column, table referred to, its column)."""
    chosen: dict[tuple[str, ...], str] = field(default_factory=dict)

    def fit(self, word: str, name: str) -> float:
        """Return how well a name fits a word: itself, a synonym, an abbreviation, nothing."""
        best = 0.0
        for token in name.lower().split("_"):
            if token == word:
                best = max(best, 3.0)
            elif token in synonyms(word):
                best = max(best, 2.0)
            elif any(abbreviates(token, other) for other in [word, *synonyms(word)]):
                best = max(best, 1.5)
        return best

    def best(self, slot: tuple[str, ...], word: str, names: list[str]) -> str:
        """Return the name that fits best, one of them by lot if several do."""
        if slot not in self.chosen:
            top = max(self.fit(word, name) for name in names)
            self.chosen[slot] = self.rng.choice([n for n in names if self.fit(word, n) == top])
        return self.chosen[slot]

    def table(self, noun: str) -> str:
        """Return the table that fits best."""
        return self.best((noun,), noun, list(self.columns))

    def column(self, noun: str, attribute: str) -> str:
        """Return the column of the noun's table that fits best."""
        table = self.table(noun)
        return f"{table}.{self.best((noun, attribute), attribute, self.columns[table])}"

    def key(self, noun: str) -> str:
        """Return the primary key."""
        table = self.table(noun)
        return f"{table}.{self.keys[table]}"

    def joins(self, noun: str, other: str, role: str | None, child: str) -> list[Join]:
        """Return the shortest way along foreign keys."""
        del child  # the schema itself says which side refers
        return self.ways(self.table(noun), role)[self.table(other)]

    def ways(self, start: str, role: str | None) -> dict[str, list[Join]]:
        """Return the joins from ``start`` to every table it is linked to, nearest first."""
        ways: dict[str, list[Join]] = {start: []}
        for table in ways_queue(ways):
            options: dict[str, list[Join]] = {}
            for source, column, target, key in self.links:
                ends = (f"{source}.{column}", f"{target}.{key}")
                if source == table:
                    options.setdefault(target, []).append(Join(target, *ends))
                elif target == table:
                    options.setdefault(source, []).append(Join(source, ends[1], ends[0]))
            for target, joins in options.items():
                if target not in ways:
                    names = [f"{join.known} {join.new}".replace(".", "_") for join in joins]
                    words = [name.replace(" ", "_") for name in names]
                    picked = self.best((table, target, role or ""), role or "", words)
                    ways[target] = [*ways[table], joins[words.index(picked)]]
        return ways


def ways_queue(ways: dict[str, list[Join]]) -> Iterator[str]:
    """Yield the tables of ``ways``, also those that are added meanwhile."""
    done = 0
    while done < len(ways):
        yield list(ways)[done]
        done += 1


def abbreviates(short: str, word: str) -> bool:
    """Tell whether ``short`` has two or more letters of ``word`` in order, the first included."""
    if len(short) < 2 or len(short) >= len(word) or short[0] != word[0]:
        return False
    letters = iter(word)
    return all(letter in letters for letter in short)
