"""A made-up bicycle rental as a SQLite database, and questions about it with reference queries.

The database has the traps of databases that grew: abbreviated names, codes instead of words,
dates in three formats, two foreign keys to one table, keys that may be NULL.
Content comes from a seeded generator. The agent of sql_agent.py sees the database and the text of
a question, never the reference query.
"""

from __future__ import annotations

import random
import sqlite3
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

SCHEMA = """
CREATE TABLE station (
    id INTEGER PRIMARY KEY, name TEXT NOT NULL, district TEXT NOT NULL, docks INTEGER NOT NULL,
    opened TEXT NOT NULL);
CREATE TABLE bk_model (
    mod_no INTEGER PRIMARY KEY, maker TEXT NOT NULL, kind TEXT NOT NULL,
    price_ct INTEGER NOT NULL);
CREATE TABLE bike (
    id INTEGER PRIMARY KEY, mod_ref INTEGER NOT NULL REFERENCES bk_model (mod_no),
    station_id INTEGER REFERENCES station (id), bought TEXT NOT NULL, state_cd TEXT NOT NULL);
CREATE TABLE member (
    mb_no INTEGER PRIMARY KEY, full_nm TEXT NOT NULL, tariff TEXT NOT NULL,
    joined TEXT NOT NULL, town TEXT NOT NULL);
CREATE TABLE hire_rec (
    hr_no INTEGER PRIMARY KEY, mb_ref INTEGER REFERENCES member (mb_no),
    bk_ref INTEGER NOT NULL REFERENCES bike (id),
    st_from INTEGER NOT NULL REFERENCES station (id), st_to INTEGER REFERENCES station (id),
    t_out INTEGER NOT NULL, mins INTEGER, fee_ct INTEGER);
CREATE TABLE repair (
    id INTEGER PRIMARY KEY, bike_id INTEGER NOT NULL REFERENCES bike (id), done_on TEXT NOT NULL,
    part TEXT NOT NULL, cost INTEGER NOT NULL);
"""

STATIONS = [
    ("Canal Bridge", "Harbour", 24), ("Old Mill", "Harbour", 12), ("Market Hall", "Centre", 30),
    ("Theatre", "Centre", 18), ("West Gate", "Westend", 16), ("Observatory", "Westend", 10),
    ("Lido", "Lakeside", 20), ("Boat House", "Lakeside", 8), ("Depot Nine", "Westend", 6),
]  # fmt: skip
MODELS = [
    ("Velora", "CITY", 180), ("Velora", "EL-CITY", 320), ("Tandrik", "CARGO", 410),
    ("Tandrik", "EL-CARGO", 560), ("Piko", "KIDS", 110), ("Piko", "CITY", 150),
]  # fmt: skip
FIRST = ["Ada", "Bela", "Cato", "Dina", "Emil", "Fenja", "Goran", "Hedda", "Ivo", "Jonna"]
LAST = ["Abel", "Brandt", "Czerny", "Dahl", "Ekholm", "Forster", "Grau", "Holt"]
TOWNS = ["NORDHAFEN", "KLEINAU", "SEEFELD", "OBERBRUCK"]
PARTS = ["Chain", "Brake pad", "Tyre", "Light", "Saddle", "Battery"]


def build(seed: int) -> sqlite3.Connection:
    """Return the database, in memory, filled from ``seed``."""
    rng = random.Random(seed)
    db = sqlite3.connect(":memory:")
    db.execute("PRAGMA foreign_keys = ON")
    db.executescript(SCHEMA)

    def day(first: int, last: int) -> date:
        return date(first, 1, 1) + timedelta(days=rng.randrange((last - first + 1) * 365))

    def insert(table: str, *values: object) -> None:
        db.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(values))})", values)

    for number, (name, district, docks) in enumerate(STATIONS, 1):
        insert("station", number, name, district, docks, day(2017, 2022).isoformat())
    for number, (maker, kind, price) in enumerate(MODELS, 1):
        insert("bk_model", number, maker, kind, price)
    for number in range(1, 91):
        state = rng.choices(["OK", "REP", "OUT"], [7, 2, 1])[0]
        # A retired bike has no station, and the last station is closed and has no bikes.
        home = None if state == "OUT" else rng.choices(range(1, 9), [9, 3, 8, 6, 4, 2, 5, 1])[0]
        model = rng.choices(range(1, 7), [6, 4, 2, 2, 1, 5])[0]
        insert("bike", number, model, home, day(2018, 2023).isoformat(), state)
    names = rng.sample([f"{first} {last}" for first in FIRST for last in LAST], 64)
    for number, name in enumerate(names, 1):
        tariff = rng.choices(["STD", "RED", "FAM"], [5, 3, 2])[0]
        joined = day(2019, 2023).strftime("%d.%m.%Y")
        insert("member", number, name, tariff, joined, rng.choices(TOWNS, [5, 3, 2, 1])[0])
    for number in range(1, 421):
        moment = datetime(2022, 1, 1, tzinfo=UTC) + timedelta(minutes=rng.randrange(1_051_200))
        minutes = None if rng.random() < 0.06 else round(rng.lognormvariate(3.4, 0.7))
        insert(
            "hire_rec",
            number,
            # A guest hires without being a member; the last members never hire.
            None if rng.random() < 0.1 else rng.randrange(1, 59),
            rng.randrange(1, 86),
            rng.choices(range(1, 9), [9, 3, 8, 6, 4, 2, 5, 1])[0],
            None if minutes is None else rng.randrange(1, 9),
            int(moment.timestamp()),
            minutes,
            None if minutes is None else 100 + 7 * minutes,
        )
    for number in range(1, 161):
        part = rng.choices(PARTS, [6, 5, 7, 3, 1, 2])[0]
        insert(
            "repair",
            number,
            rng.randrange(1, 81),
            day(2021, 2023).isoformat(),
            part,
            rng.randrange(4, 90),
        )
    db.commit()
    db.execute("PRAGMA query_only = ON")
    return db


@dataclass(frozen=True)
class Question:
    """A question, its type, and the query that answers it."""

    type: str
    text: str
    gold: str


_HIRE_MEMBER = "FROM hire_rec JOIN member ON mb_ref = mb_no"
_HIRE_MODEL = "FROM hire_rec JOIN bike ON bk_ref = bike.id JOIN bk_model ON mod_ref = mod_no"
_HIRE_START = "FROM hire_rec JOIN station ON st_from = station.id"
_REPAIR_MODEL = "FROM repair JOIN bike ON bike_id = bike.id JOIN bk_model ON mod_ref = mod_no"

QUESTIONS = [
    Question(kind, text, gold)
    for kind, text, gold in [
        ("count", "How many stations are there?", "SELECT COUNT(*) FROM station"),
        ("count", "How many bicycles are there?", "SELECT COUNT(*) FROM bike"),
        ("count", "How many customers are there?", "SELECT COUNT(*) FROM member"),
        ("count", "How many trips are there?", "SELECT COUNT(*) FROM hire_rec"),
        ("filter", 'How many stations have the district "Harbour"?',
         "SELECT COUNT(*) FROM station WHERE district = 'Harbour'"),
        ("filter", 'How many members have the town "Nordhafen"?',
         "SELECT COUNT(*) FROM member WHERE town = 'NORDHAFEN'"),
        ("filter", 'How many members have the tariff "family"?',
         "SELECT COUNT(*) FROM member WHERE tariff = 'FAM'"),
        ("filter", 'How many bikes have the condition "in repair"?',
         "SELECT COUNT(*) FROM bike WHERE state_cd = 'REP'"),
        ("filter", 'How many bikes have the condition "retired"?',
         "SELECT COUNT(*) FROM bike WHERE state_cd = 'OUT'"),
        ("filter", 'How many repairs have the part "chain"?',
         "SELECT COUNT(*) FROM repair WHERE part = 'Chain'"),
        ("filter", 'How many models have the maker "Velora"?',
         "SELECT COUNT(*) FROM bk_model WHERE maker = 'Velora'"),
        ("aggregate", "What is the total capacity of all stations?",
         "SELECT SUM(docks) FROM station"),
        ("aggregate", "What is the average cost of all repairs?", "SELECT AVG(cost) FROM repair"),
        ("aggregate", "What is the average duration of all hires?",
         "SELECT AVG(mins) FROM hire_rec"),
        ("aggregate", "What is the highest fee of all rides?", "SELECT MAX(fee_ct) FROM hire_rec"),
        ("aggregate", "What is the lowest price of all models?",
         "SELECT MIN(price_ct) FROM bk_model"),
        ("aggregate", 'What is the total cost of all repairs with the part "brake pad"?',
         "SELECT SUM(cost) FROM repair WHERE part = 'Brake pad'"),
        ("group", "How many stations are there per district?",
         "SELECT district, COUNT(*) FROM station GROUP BY district"),
        ("group", "How many riders are there per town?",
         "SELECT town, COUNT(*) FROM member GROUP BY town"),
        ("group", "What is the average cost of all repairs per part?",
         "SELECT part, AVG(cost) FROM repair GROUP BY part"),
        ("group", "How many bikes are there per status?",
         "SELECT state_cd, COUNT(*) FROM bike GROUP BY state_cd"),
        ("list", 'List the name of all stations with the district "Lakeside".',
         "SELECT name FROM station WHERE district = 'Lakeside'"),
        ("list", 'List the name of all members with the tariff "reduced".',
         "SELECT full_nm FROM member WHERE tariff = 'RED'"),
        ("list", 'List the price of all models with the kind "electric cargo".',
         "SELECT price_ct FROM bk_model WHERE kind = 'EL-CARGO'"),
        ("join", 'How many bikes belong to stations with the district "Centre"?',
         ("SELECT COUNT(*) FROM bike JOIN station ON station_id = station.id "
         "WHERE district = 'Centre'")),
        ("join", 'How many repairs belong to bikes with the condition "in repair"?',
         "SELECT COUNT(*) FROM repair JOIN bike ON bike_id = bike.id WHERE state_cd = 'REP'"),
        ("join", 'How many hires belong to members with the tariff "family"?',
         f"SELECT COUNT(*) {_HIRE_MEMBER} WHERE tariff = 'FAM'"),
        ("join", ('What is the total fee of all hires that belong to members with the town '
         '"Seefeld"?'), f"SELECT SUM(fee_ct) {_HIRE_MEMBER} WHERE town = 'SEEFELD'"),
        ("join", 'How many hires belong to start stations with the district "Harbour"?',
         f"SELECT COUNT(*) {_HIRE_START} WHERE district = 'Harbour'"),
        ("join", 'How many hires belong to models with the maker "Tandrik"?',
         f"SELECT COUNT(*) {_HIRE_MODEL} WHERE maker = 'Tandrik'"),
        ("join", ('What is the average duration of all hires that belong to models with the kind '
         '"kids"?'), f"SELECT AVG(mins) {_HIRE_MODEL} WHERE kind = 'KIDS'"),
        ("join_group", "How many bikes are there per district of the station?",
         ("SELECT district, COUNT(*) FROM bike JOIN station ON station_id = station.id "
         "GROUP BY district")),
        ("join_group", "What is the total cost of all repairs per status of the bike?",
         "SELECT state_cd, SUM(cost) FROM repair JOIN bike ON bike_id = bike.id GROUP BY state_cd"),
        ("join_group", "What is the total fee of all hires per town of the member?",
         f"SELECT town, SUM(fee_ct) {_HIRE_MEMBER} GROUP BY town"),
        ("join_group", "How many rides are there per district of the end station?",
         ("SELECT district, COUNT(*) FROM hire_rec JOIN station ON st_to = station.id "
         "GROUP BY district")),
        ("join_group", "What is the average cost of all repairs per kind of the model?",
         f"SELECT kind, AVG(cost) {_REPAIR_MODEL} GROUP BY kind"),
        ("anti_join", "List the name of all stations without any bike.",
         ("SELECT name FROM station WHERE id NOT IN "
         "(SELECT station_id FROM bike WHERE station_id IS NOT NULL)")),
        ("anti_join", "List the name of all members without any hire.",
         ("SELECT full_nm FROM member WHERE mb_no NOT IN "
         "(SELECT mb_ref FROM hire_rec WHERE mb_ref IS NOT NULL)")),
        ("anti_join", "How many bikes are there without any repair?",
         "SELECT COUNT(*) FROM bike WHERE id NOT IN (SELECT bike_id FROM repair)"),
        ("top", "Which 2 stations have the most bikes? Give their name.",
         ("SELECT name FROM station JOIN bike ON station_id = station.id "
         "GROUP BY station.id ORDER BY COUNT(*) DESC LIMIT 2")),
        ("top", "Which 1 member has the most hires? Give their name.",
         f"SELECT full_nm {_HIRE_MEMBER} GROUP BY mb_no ORDER BY COUNT(*) DESC LIMIT 1"),
        ("top", "Which 1 model has the most bikes? Give their maker.",
         ("SELECT maker FROM bk_model JOIN bike ON mod_ref = mod_no "
         "GROUP BY mod_no ORDER BY COUNT(*) DESC LIMIT 1")),
        ("date", "How many repairs have a date in 2022?",
         "SELECT COUNT(*) FROM repair WHERE done_on LIKE '2022-%'"),
        ("date", "How many members have a registration in 2021?",
         "SELECT COUNT(*) FROM member WHERE joined LIKE '%.2021'"),
        ("date", "How many stations have an opening in 2019?",
         "SELECT COUNT(*) FROM station WHERE opened LIKE '2019-%'"),
        ("date", "How many hires have a departure in 2023?",
         "SELECT COUNT(*) FROM hire_rec WHERE strftime('%Y', t_out, 'unixepoch') = '2023'"),
        ("date", "What is the total cost of all repairs with a date in 2023?",
         "SELECT SUM(cost) FROM repair WHERE done_on LIKE '2023-%'"),
    ]
]  # fmt: skip
