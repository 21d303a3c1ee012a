"""Let an agent answer questions over a real SQLite database, and choose anew how for each of them.

The agent (no language model) knows tables and columns of the bicycle rental, but not how values are
stored: as they are said, in capitals, as codes, as dates of three formats. It has seven ways to
write a filter, none of which is right for every question. Nothing decides an outcome but the
database: an answer is right if its rows equal those of the reference query.

Three agents meet the same questions one after another: one draws a way at random, one asks a
memory, one takes the way that is best in hindsight for all questions together. The one with the
memory is told nothing but whether its answer was right; it never sees the kind of a question.
"""

from __future__ import annotations

import argparse
import random
import re
import sqlite3
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bike_rental import build

if TYPE_CHECKING:
    from graphmem import Memory

DATABASE_SEED = 3
SEED = 4
"""Of the questions: of 0 to 7 the one with which the memory comes nearest to its mean."""
QUESTIONS = 300
"""Questions that an agent meets by default."""

MONTHS = ["January", "February", "March", "April", "May", "June", "July", "August", "September",
          "October", "November", "December"]  # fmt: skip


class NoDateError(Exception):
    """The question names no date."""


def quoted(value: str) -> str:
    """Return an SQL string."""
    return "'" + value.replace("'", "''") + "'"


def dated(value: str) -> tuple[str, str | None]:
    """Return the year and the month, two digits each, of "2022" or "March 2022"."""
    found = re.fullmatch(r"(?:([A-Z][a-z]+) )?(\d{4})", value)
    if not found:
        raise NoDateError(f"no date in {value!r}")
    return found[2], f"{MONTHS.index(found[1]) + 1:02}" if found[1] else None


def by_iso(column: str, value: str) -> str:
    """Return the filter for 2022-03-17."""
    year, month = dated(value)
    return f"{column} LIKE '{year}-{month or ''}%'"


def by_day_first(column: str, value: str) -> str:
    """Return the filter for 17.03.2022."""
    year, month = dated(value)
    return f"{column} LIKE '%.{month or '%'}.{year}'"


def by_seconds(column: str, value: str) -> str:
    """Return the filter for seconds since 1970."""
    year, month = dated(value)
    form, wanted = ("%Y-%m", f"{year}-{month}") if month else ("%Y", year)
    return f"strftime('{form}', {column}, 'unixepoch') = '{wanted}'"


WAYS: dict[str, Callable[[str, str], str]] = {
    "compare with the value as it is said": lambda column, value: f"{column} = {quoted(value)}",
    "compare with the value in capitals": lambda column, value: (
        f"{column} = {quoted(value.upper())}"
    ),
    "compare with a code: the first three letters, in capitals": lambda column, value: (
        f"{column} = {quoted(value[:3].upper())}"
    ),
    "look for the value anywhere in the text": lambda column, value: (
        f"{column} LIKE {quoted(f'%{value}%')}"
    ),
    "take dates as year-month-day": by_iso,
    "take dates as day.month.year": by_day_first,
    "take dates as seconds since 1970": by_seconds,
}
"""How to write the filter of a query: a function of column and value; a date may be missing."""


@dataclass(frozen=True)
class Question:
    """A question, what the agent knows of it (all but the filter), and the filter of reference."""

    kind: str
    text: str
    query: str
    column: str
    value: str
    gold: str


def periods(first: int, last: int) -> list[str]:
    """Return the years and the months of these years."""
    years = [str(year) for year in range(first, last + 1)]
    return [*years, *(f"{month} {year}" for year in years for month in MONTHS)]


def stored(values: dict[str, str]) -> Callable[[str, str], str]:
    """Return the filter of reference by how each value is stored."""
    return lambda column, value: f"{column} = {quoted(values[value])}"


def catalogue() -> list[Question]:
    """Return all questions, by kind."""
    hires = "FROM hire_rec JOIN member ON mb_ref = mb_no WHERE"
    models = "FROM bike JOIN bk_model ON mod_ref = mod_no WHERE"
    hired = "FROM hire_rec JOIN bike ON bk_ref = bike.id JOIN bk_model ON mod_ref = mod_no WHERE"
    begun = "FROM hire_rec JOIN station ON st_from = station.id WHERE"
    tariffs = {"family": "FAM", "reduced": "RED", "standard": "STD"}
    states = {"repair": "REP", "out of service": "OUT", "OK": "OK"}
    towns = {town.capitalize(): town for town in ["NORDHAFEN", "KLEINAU", "SEEFELD", "OBERBRUCK"]}
    kinds = {"city": "CITY", "cargo": "CARGO", "kids": "KIDS"}
    parts = {part.lower(): part for part in ["Chain", "Brake pad", "Tyre", "Light", "Saddle"]}
    districts = {name: name for name in ["Harbour", "Centre", "Westend", "Lakeside"]}
    asked: list[tuple[str, str, list[str], Callable[[str, str], str], list[tuple[str, str]]]] = [
        ("repairs by date", "done_on", periods(2021, 2023), by_iso, [
            ("How many repairs were done in {}?", "SELECT COUNT(*) FROM repair WHERE"),
            ("What did all repairs done in {} cost?", "SELECT SUM(cost) FROM repair WHERE"),
            ("Which parts were repaired in {}?", "SELECT part FROM repair WHERE"),
        ]),
        ("bikes by date", "bought", periods(2018, 2023), by_iso, [
            ("How many bikes were bought in {}?", "SELECT COUNT(*) FROM bike WHERE"),
            ("Which bikes were bought in {}?", "SELECT id FROM bike WHERE"),
        ]),
        ("members by date", "joined", periods(2019, 2023), by_day_first, [
            ("How many members joined in {}?", "SELECT COUNT(*) FROM member WHERE"),
            ("Which members joined in {}?", "SELECT full_nm FROM member WHERE"),
        ]),
        ("hires by date", "t_out", periods(2022, 2023), by_seconds, [
            ("How many hires began in {}?", "SELECT COUNT(*) FROM hire_rec WHERE"),
            ("What did all hires begun in {} bring in?", "SELECT SUM(fee_ct) FROM hire_rec WHERE"),
            ("How long were the hires of {} on average?", "SELECT AVG(mins) FROM hire_rec WHERE"),
        ]),
        ("members by tariff", "tariff", list(tariffs), stored(tariffs), [
            ("How many members have the tariff {}?", "SELECT COUNT(*) FROM member WHERE"),
            ("Which members have the tariff {}?", "SELECT full_nm FROM member WHERE"),
            ("How many hires did members with the tariff {} make?", f"SELECT COUNT(*) {hires}"),
        ]),
        ("bikes by state", "state_cd", list(states), stored(states), [
            ("How many bikes are in the state {}?", "SELECT COUNT(*) FROM bike WHERE"),
            ("Which bikes are in the state {}?", "SELECT id FROM bike WHERE"),
        ]),
        ("members by town", "town", list(towns), stored(towns), [
            ("How many members live in the town {}?", "SELECT COUNT(*) FROM member WHERE"),
            ("Which members live in the town {}?", "SELECT full_nm FROM member WHERE"),
            ("What did all hires by members of the town {} bring in?",
             f"SELECT SUM(fee_ct) {hires}"),
        ]),
        ("bikes by kind", "kind", list(kinds), stored(kinds), [
            ("How many bikes of the kind {} are there?", f"SELECT COUNT(*) {models}"),
            ("Which bikes are of the kind {}?", f"SELECT bike.id {models}"),
            ("How often were bikes of the kind {} hired?", f"SELECT COUNT(*) {hired}"),
        ]),
        ("repairs by part", "part", list(parts), stored(parts), [
            ("How many repairs of the part {} were there?", "SELECT COUNT(*) FROM repair WHERE"),
            ("What did a repair of the part {} cost on average?",
             "SELECT AVG(cost) FROM repair WHERE"),
        ]),
        ("stations by district", "district", list(districts), stored(districts), [
            ("How many stations are in the district {}?", "SELECT COUNT(*) FROM station WHERE"),
            ("Which stations are in the district {}?", "SELECT name FROM station WHERE"),
            ("How many hires began in the district {}?", f"SELECT COUNT(*) {begun}"),
        ]),
    ]  # fmt: skip
    return [
        Question(kind, text.format(value), query, column, value, reference(column, value))
        for kind, column, values, reference, wordings in asked
        for value in values
        for text, query in wordings
    ]


@dataclass(frozen=True)
class World:
    """The database, and the questions that agents meet, in order."""

    db: sqlite3.Connection
    questions: list[Question]

    def answer(self, question: Question, way: str) -> str | None:
        """Answer a question in a way; return what was wrong, or None."""
        try:
            rows = self.rows(question, WAYS[way](question.column, question.value))
        except NoDateError as error:
            return str(error)
        if rows == self.rows(question, question.gold):
            return None
        return "wrong answer: " + ("other values" if has_content(rows) else "nothing is found")

    def rows(self, question: Question, condition: str) -> Counter[tuple[object, ...]]:
        """Return what a question finds under a condition."""
        return Counter(self.db.execute(f"{question.query} {condition}").fetchall())


def has_content(rows: Counter[tuple[object, ...]]) -> bool:
    """Tell whether a result has anything but NULL and 0."""
    return any(value not in (None, 0) for row in rows for value in row)


def world(seed: int = SEED, count: int = QUESTIONS) -> World:
    """Return ``count`` questions with answers, their kinds equally likely, drawn from ``seed``."""
    found = World(build(DATABASE_SEED), [])
    rng, by_kind = random.Random(seed), dict[str, list[Question]]()
    for question in catalogue():
        if has_content(found.rows(question, question.gold)):
            by_kind.setdefault(question.kind, []).append(question)
    for _ in range(count):
        found.questions.append(rng.choice(by_kind[rng.choice(list(by_kind))]))
    return found


def at_random(found: World, seed: int = SEED) -> list[bool]:
    """Return which questions are right when a way is drawn for each."""
    rng, ways = random.Random(f"ways/{seed}"), list(WAYS)
    return [found.answer(question, rng.choice(ways)) is None for question in found.questions]


def with_memory(found: World, memory: Memory) -> list[bool]:
    """Return which questions are right when a memory chooses, and learns how it went."""
    right = []
    for number, question in enumerate(found.questions):
        with memory.attempt(question.text) as attempt:
            way = attempt.choose(list(WAYS), seed=number).text
            error = found.answer(question, way)
            if error is None:
                attempt.succeed()
            else:
                attempt.fail(error)
        right.append(error is None)
    return right


def in_hindsight(found: World) -> tuple[str, list[bool], list[bool]]:
    """Return the best single way, which questions are right in it, and which in any way."""
    right = {
        way: [found.answer(question, way) is None for question in found.questions] for way in WAYS
    }
    best = max(right, key=lambda way: sum(right[way]))
    return best, right[best], [any(one) for one in zip(*right.values(), strict=True)]


def main() -> None:
    """Print how the agents did, and how often each way is right on each kind of questions."""
    from graphmem import Memory

    parser = argparse.ArgumentParser(description="Let agents choose how to answer questions.")
    parser.add_argument("--questions", type=int, default=QUESTIONS)
    parser.add_argument("--seed", type=int, default=SEED, help="other questions")
    options = parser.parse_args()
    found = world(options.seed, options.questions)
    best, fixed, ceiling = in_hindsight(found)
    with Memory.open("memory:") as memory:
        chosen = with_memory(found, memory)
    for name, right in (
        ("a way drawn at random", at_random(found, options.seed)),
        ("a memory chooses", chosen),
        (f"always: {best}", fixed),
        ("the best way for each question", ceiling),
    ):
        late = right[-len(right) // 3 :]
        print(f"{sum(right) / len(right):.3f}, {sum(late) / len(late):.3f} at the end: {name}")
    for kind in sorted({question.kind for question in found.questions}):
        asked = [question for question in found.questions if question.kind == kind]
        rates = [sum(found.answer(one, way) is None for one in asked) / len(asked) for way in WAYS]
        print("  ".join([f"{kind:22}", *(f"{rate:.2f}" for rate in rates)]))


if __name__ == "__main__":
    main()
