"""Let a rule-based agent answer questions over a real SQLite database, and log what happened.

The agent (no language model) reads a question by a small grammar, finds names for its words in one
way or another, writes SQL and runs it. Its strategies differ in what they look at before, and in
what they do after an error or an empty result. Nothing decides an outcome but the database: an
answer is right if its rows equal those of the reference query.
"""

from __future__ import annotations

import json
import math
import random
import re
import sqlite3
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from bike_rental import QUESTIONS, Question, build
from log_writer import Episode, Log, main
from sql_names import Guesser, Join, Names, OutOfNamesError, Schema

SEEDS = [3, 8]
"""Each seed makes a database and the agent's choices; all questions are asked of each."""
STATEMENT_COST = 0.02
"""Reward taken for every statement; a right answer earns 1."""
FETCH_LIMIT = 100
MAX_TRIES = 5

INSPECT = "inspect the schema before writing the query"
GUESS = "guess table and column names from the words of the question"
RETRY = "on an error, read the message and try another name for what it complains about"
FALL_BACK = "on an error, inspect the schema and write the query again"
SAMPLE = "sample the stored values before filtering on them"
RECHECK = "on an empty result, sample the stored values and query again"
WIDE = "join all tables into one wide query and filter that"
FETCH = f"fetch up to {FETCH_LIMIT} rows of each table and compute the answer from those"
PLANS = {
    "guess": (GUESS,),
    "guess-retry": (GUESS, RETRY),
    "guess-fall-back": (GUESS, FALL_BACK),
    "inspect": (INSPECT,),
    "inspect-sample": (INSPECT, SAMPLE),
    "inspect-recheck": (INSPECT, RECHECK),
    "inspect-wide": (INSPECT, WIDE),
    "inspect-fetch": (INSPECT, FETCH),
}

Row = tuple[Any, ...]


@dataclass(frozen=True)
class Ask:
    """A question as the agent understands it."""

    thing: str
    function: str = "COUNT"
    """COUNT, AVG, SUM, MAX, MIN, LIST or TOP."""
    attribute: str | None = None
    where: tuple[str, str] | None = None
    """(attribute, value) of ``of``, or of the thing."""
    year: tuple[str, str] | None = None
    per: str | None = None
    of: str | None = None
    """The noun that ``where`` or ``per`` speaks of, if it is not the thing."""
    role: str | None = None
    """Which of several links to ``of`` is meant: start, end."""
    without: str | None = None
    most: str | None = None
    limit: int = 0

    @property
    def shape(self) -> str:
        """Return a short name of what the question needs."""
        parts = ("where", "year", "per", "of", "without")
        return " ".join([self.function.lower(), *(part for part in parts if getattr(self, part))])


FUNCTIONS = {"average": "AVG", "total": "SUM", "highest": "MAX", "lowest": "MIN"}


def singular(noun: str) -> str:
    """Return ``noun`` without its plural s."""
    return noun.removesuffix("s")


def understand(text: str) -> Ask:
    """Read a question.

    Raises:
        ValueError: the grammar does not know such a question.
    """
    values: dict[str, Any]
    if m := re.match(r"How many (\w+)", text):
        values = {"thing": m[1]}
    elif m := re.match(r"What is the (\w+) (\w+) of all (\w+)", text):
        values = {"thing": m[3], "function": FUNCTIONS[m[1]], "attribute": m[2]}
    elif m := re.match(r"List the (\w+) of all (\w+)", text):
        values = {"thing": m[2], "function": "LIST", "attribute": m[1]}
    elif m := re.match(r"Which (\d) (\w+) ha(?:s|ve) the most (\w+)\? Give their (\w+)", text):
        values = {"thing": m[2], "function": "TOP", "attribute": m[4], "limit": int(m[1])}
        values["most"] = singular(m[3])
    else:
        raise ValueError(f"cannot read {text!r}")
    if m := re.search(r'(?:have|with) the (\w+) "(.+)"', text):
        values["where"] = (m[1], m[2])
    if m := re.search(r"(?:have|with) an? (\w+) in (\d{4})", text):
        values["year"] = (m[1], m[2])
    if m := re.search(r"belong to (?:(start|end) )?(\w+)", text):
        values |= {"role": m[1], "of": singular(m[2])}
    if m := re.search(r"per (\w+)(?: of the (?:(start|end) )?(\w+))?", text):
        values |= {"per": m[1], "role": m[2], "of": m[3]}
    if m := re.search(r"without any (\w+)", text):
        values["without"] = m[1]
    return Ask(**values | {"thing": singular(values["thing"])})


def stored_form(value: str, stored: list[Any]) -> str:
    """Return the stored value that means ``value``, or ``value`` itself."""

    def fit(other: str) -> float:
        pieces = re.split(r"[\W_]+", other.lower())
        words = value.lower().split()
        if other.lower() == value.lower():
            return 3.0
        hits = [any(word.startswith(piece) for word in words) for piece in pieces]
        return 1.0 + len(pieces) if all(hits) else 0.0

    texts = [other for other in stored if isinstance(other, str)]
    return max(texts, key=fit) if texts and max(map(fit, texts)) > 0 else value


@dataclass
class Session:
    """A connection and what the agent did over it."""

    shape: str
    db: sqlite3.Connection
    steps: list[dict[str, Any]] = field(default_factory=list)
    schema: str = "unknown"
    values: str = "unknown"
    last: str = "nothing"
    queries: int = 0
    error: str | None = None

    def state(self) -> dict[str, Any]:
        """Return what the agent's next decision can rest on."""
        return {
            "question": self.shape, "schema": self.schema, "values": self.values,
            "last": self.last, "queries": self.queries,
        }  # fmt: skip

    def run(self, kind: str, sql: str, db: sqlite3.Connection | None = None) -> list[Row]:
        """Run one statement as a step; after an error the rows are empty and ``error`` is set."""
        before, rows, self.error = self.state(), list[Row](), None
        try:
            rows = (db or self.db).execute(sql).fetchall()
        except sqlite3.Error as error:
            self.error = f"{type(error).__name__}: {error}"
            self.last = re.sub(r":[^:]*$", "", str(error))
        else:
            self.last = "empty" if is_empty(rows) else "rows"
        self.schema = "known" if kind == "inspect" else self.schema
        self.values = "sampled" if kind in ("sample", "fetch") else self.values
        self.queries += kind in ("query", "compute")
        self.steps.append(
            {
                "action_type": kind,
                "action": {"sql": sql},
                "observation": None if self.error else shown(rows),
                "reward": -STATEMENT_COST,
                "error": self.error,
                "state": before,
                "next_state": self.state(),
                "terminal": False,
            }
        )
        return rows


def is_empty(rows: list[Row]) -> bool:
    """Tell whether a result has nothing in it but NULL and 0."""
    return all(value in (None, 0) for row in rows for value in row)


def shown(rows: list[Row]) -> str:
    """Return the first rows as text."""
    text = json.dumps(rows[:5], ensure_ascii=False)
    return text if len(rows) <= 5 else f"{text} and {len(rows) - 5} more rows"


@dataclass
class Writer:
    """Writes the query for a question, with the names and values that are known."""

    ask: Ask
    names: Names
    rng: random.Random
    wide: bool = False
    samples: dict[str, list[Any]] = field(default_factory=dict)

    def filtered(self) -> str | None:
        """Return the column that the question filters on."""
        if self.ask.where:
            return self.names.column(self.ask.of or self.ask.thing, self.ask.where[0])
        return self.names.column(self.ask.thing, self.ask.year[0]) if self.ask.year else None

    def condition(self, column: str) -> str:
        """Return the filter, fitted to sampled values if there are any."""
        stored = [value for value in self.samples.get(column, []) if value is not None]
        if self.ask.where:
            value = stored_form(self.ask.where[1], stored)
            return f"{column} = '{value}'"
        year = self.ask.year[1] if self.ask.year else ""
        if stored and isinstance(stored[0], int):
            return f"strftime('%Y', {column}, 'unixepoch') = '{year}'"
        if stored:
            starts = re.match(r"\d{4}", stored[0])
            return f"{column} LIKE '{year}%'" if starts else f"{column} LIKE '%{year}'"
        return self.rng.choice(
            [
                f"{column} LIKE '{year}-%'",
                f"{column} LIKE '%{year}%'",
                f"strftime('%Y', {column}) = '{year}'",
                f"{column} BETWEEN '{year}-01-01' AND '{year}-12-31'",
            ]
        )

    def joins(self) -> list[Join]:
        """Return the joins that the question needs; in a wide query, all there are."""
        ask = self.ask
        if self.wide and isinstance(self.names, Schema):
            ways = self.names.ways(self.names.table(ask.thing), ask.role)
            return [way[-1] for way in ways.values() if way]
        if other := ask.most or ask.without:
            return self.names.joins(ask.thing, other, None, child=other)
        if ask.of:
            return self.names.joins(ask.thing, ask.of, ask.role, child=ask.thing)
        return []

    def sql(self) -> str:
        """Return the query."""
        ask, names = self.ask, self.names
        table, joins, where = names.table(ask.thing), self.joins(), list[str]()
        join_word = "LEFT JOIN" if self.wide else "JOIN"
        if column := self.filtered():
            where.append(self.condition(column))
        if ask.without:
            target = names.table(ask.without)
            link = next(join for join in joins if join.table == target)
            if self.wide or self.rng.random() < 0.5:
                join_word = "LEFT JOIN"
                where.append(f"{link.new} IS NULL")
            else:
                # Common, and wrong as soon as the inner column holds a NULL.
                joins = []
                where.append(f"{link.known} NOT IN (SELECT {link.new} FROM {target})")
        distinct = "DISTINCT " if self.wide and self.rng.random() < 0.5 else ""
        count = f"COUNT(DISTINCT {names.key(ask.thing)})" if distinct else "COUNT(*)"
        grouped = names.column(ask.of or ask.thing, ask.per) if ask.per else None
        value = names.column(ask.thing, ask.attribute) if ask.attribute else None
        tail = f" GROUP BY {grouped}" if grouped else ""
        if ask.function == "COUNT":
            select = count
        elif ask.function == "LIST":
            select = f"{distinct}{value}"
        elif ask.function == "TOP":
            counted = f"COUNT(DISTINCT {names.key(ask.most or '')})" if distinct else "COUNT(*)"
            # Grouping by what is shown is shorter, and merges rows that share it.
            group = names.key(ask.thing) if self.rng.random() < 0.5 else value
            select = f"{value}"
            tail = f" GROUP BY {group} ORDER BY {counted} DESC LIMIT {ask.limit}"
        else:
            select = f"{ask.function}({value})"
        select = f"{grouped}, {select}" if grouped else select
        source = table + "".join(f" {join_word} {j.table} ON {j.known} = {j.new}" for j in joins)
        return f"SELECT {select} FROM {source}" + "".join(f" WHERE {w}" for w in where) + tail


def inspect(session: Session, rng: random.Random) -> Schema:
    """Read tables, columns and foreign keys from the database."""
    columns: dict[str, list[str]] = {}
    keys: dict[str, str] = {}
    for table, column, key in session.run(
        "inspect",
        "SELECT t.name, c.name, c.pk FROM sqlite_master t, pragma_table_info(t.name) c "
        "WHERE t.type = 'table' ORDER BY t.name, c.cid",
    ):
        columns.setdefault(table, []).append(column)
        if key:
            keys[table] = column
    links = session.run(
        "inspect",
        'SELECT t.name, f."from", f."table", f."to" FROM sqlite_master t, '
        "pragma_foreign_key_list(t.name) f WHERE t.type = 'table' ORDER BY t.name, f.id DESC",
    )
    return Schema(rng, columns, keys, [(a, b, c, d) for a, b, c, d in links])


def sample(session: Session, writer: Writer) -> bool:
    """Look at the values of the column that is filtered on; tell whether there is one."""
    column = writer.filtered()
    if column:
        table = column.partition(".")[0]
        rows = session.run("sample", f"SELECT DISTINCT {column} FROM {table} LIMIT 20")
        writer.samples[column] = [value for (value,) in rows]
    return column is not None


def fetch(session: Session, writer: Writer, schema: Schema) -> list[Row]:
    """Copy the first rows of each table that is needed, and answer from the copy."""
    scratch = sqlite3.connect(":memory:")
    tables = {writer.names.table(writer.ask.thing), *(join.table for join in writer.joins())}
    for table in sorted(tables):
        rows = session.run("fetch", f"SELECT * FROM {table} LIMIT {FETCH_LIMIT}")
        columns = schema.columns[table]
        scratch.execute(f"CREATE TABLE {table} ({', '.join(columns)})")
        scratch.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * len(columns))})", rows)
        for index, column in enumerate(columns):
            writer.samples[f"{table}.{column}"] = [row[index] for row in rows]
    rows = session.run("compute", writer.sql(), scratch)
    scratch.close()
    return rows


def answer(session: Session, ask: Ask, plan: tuple[str, ...], rng: random.Random) -> list[Row]:
    """Answer a question by the strategies of ``plan``."""
    guesser = Guesser(rng)
    schema = inspect(session, rng) if INSPECT in plan else None
    writer = Writer(ask, schema or guesser, rng, wide=WIDE in plan)
    if schema and FETCH in plan:
        return fetch(session, writer, schema)
    if SAMPLE in plan:
        sample(session, writer)
    rows = session.run("query", writer.sql())
    while RETRY in plan and session.error and session.queries < MAX_TRIES:
        try:
            if not guesser.refuse(session.error):
                break
            rows = session.run("query", writer.sql())
        except OutOfNamesError:
            break
    if FALL_BACK in plan and session.error:
        writer.names = inspect(session, rng)
        rows = session.run("query", writer.sql())
    if RECHECK in plan and not session.error and is_empty(rows) and sample(session, writer):
        rows = session.run("query", writer.sql())
    return rows


def grade(rows: list[Row], gold: list[Row]) -> str | None:
    """Return what is wrong with an answer, or None; the order of rows does not matter."""

    def plain(row: Row) -> Row:
        # Sums of floats may differ in the last digits by the order of rows.
        return tuple(
            float(f"{v:.9g}") if isinstance(v, float) and math.isfinite(v) else v for v in row
        )

    if Counter(map(plain, rows)) == Counter(map(plain, gold)):
        return None
    if is_empty(rows):
        return "wrong answer: the result is empty"
    if len(rows) != len(gold):
        return f"wrong answer: {len(rows)} rows instead of {len(gold)}"
    return "wrong answer: the values differ from the reference"


def attempt(number: int, question: Question, name: str, seed: int, db: sqlite3.Connection,
            times: bool) -> Episode:  # fmt: skip
    """Let the agent answer one question by one plan; return the line of the log."""
    rng = random.Random(f"{number}/{name}/{seed}")
    ask = understand(question.text)
    session = Session(ask.shape, db)
    began = datetime.now(UTC)
    rows = answer(session, ask, PLANS[name], rng)
    ended = datetime.now(UTC)
    error = session.error or grade(rows, db.execute(question.gold).fetchall())
    final = session.steps[-1]
    final["terminal"] = True
    if error is None:
        final["reward"] = 1 - STATEMENT_COST
    queries = "1 query" if session.queries == 1 else f"{session.queries} queries"
    episode: Episode = {
        "task": question.text,
        "task_key": f"bike-rental-{number:02}",
        "task_type": f"sql.{question.type}",
        "agent": "sql agent",
        "strategy": [{"text": text} for text in PLANS[name]],
        "success": error is None,
        "reward": round(sum(step["reward"] for step in session.steps), 2),
        "error": error,
        "summary": f"{error or 'right answer'}; {queries}, {len(session.steps)} statements in all",
        "source_key": f"sql/question-{number:02}/{name}/seed-{seed}",
        "source": "seeds/sql_agent.py",
        "steps": [
            {key: value for key, value in step.items() if value is not None}
            for step in session.steps
        ],
        "extra": {"database": "bike rental", "seed": seed},
    }
    if times:
        episode |= {
            "started_at": began.isoformat(),
            "ended_at": ended.isoformat(),
            "duration": (ended - began).total_seconds(),
        }
    return episode


def episodes(times: bool) -> Iterator[Episode]:
    """Yield the log: every question by every plan, once for each seed."""
    for seed in SEEDS:
        db = build(seed)
        for number, question in enumerate(QUESTIONS, 1):
            for name in PLANS:
                yield attempt(number, question, name, seed, db, times)
        db.close()


if __name__ == "__main__":
    sys.exit(
        main(
            Log(
                file="logs/sql.jsonl.gz",
                script="seeds/sql_agent.py",
                seeds=SEEDS,
                environments=["SQLite database of seeds/bike_rental.py"],
                versions={"sqlite": sqlite3.sqlite_version},
                episodes=episodes,
            )
        )
    )
