"""The loader refuses procedures whose headers do not say the truth."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from graphmem.errors import NotFoundError, ProcedureError
from graphmem.graph.derived import KINDS
from graphmem.kinds import NODE_KINDS
from graphmem.store.port import TEXTS
from graphmem.store.queries import Catalog, catalog, readable

ROOT = Path(__file__).resolve().parents[2]
GOOD = """
// name: things.find
// doc: Finds things.
// param: ns string, limit integer = 5
// returns: id string
MATCH (t:Thing)
WHERE t.ns = $ns
RETURN t.id AS id
ORDER BY id LIMIT $limit;
"""


FORMULAS = """
// formula: mean(trials, successes)
(successes + 1.0) / (trials + 2);
"""


def load(folder: Path, text: str) -> Catalog:
    (folder / "things.cypher").write_text(text)
    (folder / "formulas.cypher").write_text(FORMULAS)
    found = Catalog(folder)
    assert list(found)
    return found


def test_a_good_header_is_kept(tmp_path: Path) -> None:
    query = load(tmp_path, GOOD)["things.find"]
    assert (query.mode, query.doc) == ("read", "Finds things.")
    assert query.bind({"ns": "n"}) == {"ns": "n", "limit": 5}


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("// name: things.find\n", "", "lacks '// name"),
        ("things.find", "find", "lacks '// name"),
        ("// doc", "// mode: maybe\n// doc", "must be read, write or schema"),
        ("// doc: Finds things.\n", "", "'// doc:' is missing"),
        ("ns string, ", "", r"\$ns is used but not declared"),
        ("t.ns = $ns", "t.ns = 'n'", "ns is declared but not used"),
        ("ns string", "ns text", "bad '// param"),
        ("id string", "id text", "bad '// returns"),
        ("AS id\n", "AS identity\n", "returns .*identity.*header says .*id"),
        ("LIMIT $limit;", "LIMIT $limit", "no semicolon"),
        (GOOD, GOOD + GOOD, "defined twice"),
    ],
)
def test_a_header_that_is_not_true_is_refused(
    tmp_path: Path, old: str, new: str, message: str
) -> None:
    assert old in GOOD
    with pytest.raises(ProcedureError, match=message):
        load(tmp_path, GOOD.replace(old, new))


def test_what_can_be_installed_has_a_name_of_its_own_for_cypher_users(tmp_path: Path) -> None:
    assert load(tmp_path, GOOD)["things.find"].install is None
    named = GOOD.replace("// doc", "// install: find_things\n// doc")
    assert load(tmp_path, named)["things.find"].install == "find_things"
    installable = [query for query in catalog() if query.install]
    names = [query.install or "" for query in installable]
    assert len(set(names)) == len(names) > 50
    assert all(re.fullmatch(r"[a-z][a-z0-9_]+", name) for name in names)
    assert not any(query.options or query.mode == "schema" for query in installable)


def test_statements_are_easy_to_read() -> None:
    for file in catalog().folder.rglob("*.cypher"):
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
            assert len(line) <= 140, f"{file.name}:{number} has {len(line)} characters"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "ns .* is missing"),
        ({"ns": 5}, r"ns must be string \(got 5\)"),
        ({"ns": "n", "other": 1}, "unknown parameter other"),
    ],
)
def test_a_call_with_other_parameters_is_refused(
    tmp_path: Path, given: dict[str, object], message: str
) -> None:
    with pytest.raises(ProcedureError, match=message):
        load(tmp_path, GOOD)["things.find"].bind(given)


OPTIONAL = """
// name: things.touch
// mode: write
// doc: Touches a thing.
// option: dated  it has a time
// option: heavy  it has a weight
// param: id string
// param: at integer
// param: weight float
// returns: seen integer, weight float
MATCH (t:Thing {id: $id})
SET t.seen = t.seen + 1
  , t.at = $at                                                                  //? dated
//? heavy
SET t.weight = $weight
//?
RETURN t.seen AS seen,
  t.weight AS weight   //? heavy
  0.0 AS weight   //? !heavy
;
"""


@pytest.mark.parametrize(
    ("options", "lines"),
    [
        ((), ["SET t.seen = t.seen + 1", "RETURN t.seen AS seen,", "0.0 AS weight"]),
        (("dated",), [", t.at = $at", "RETURN t.seen AS seen,", "0.0 AS weight"]),
        (
            ("dated", "heavy"),
            ["SET t.weight = $weight", "RETURN t.seen AS seen,", "t.weight AS weight"],
        ),
    ],
)
def test_only_the_lines_that_are_wanted_are_sent(
    tmp_path: Path, options: tuple[str, ...], lines: list[str]
) -> None:
    query = load(tmp_path, OPTIONAL)["things.touch"]
    assert query.options == {"dated": "it has a time", "heavy": "it has a weight"}
    variant = query.wanting(*options)
    assert variant is query.wanting(*reversed(options))
    assert [line for line in variant.text.splitlines() if line][-3:] == lines
    given = {"id": "x", "at": 7, "weight": 0.5}
    assert variant.bind(given).keys() == {
        *("id",),
        *(("at",) if "dated" in options else ()),
        *(("weight",) if "heavy" in options else ()),
    }
    for wrong, call in (
        ("unknown parameter x", lambda: variant.bind({**given, "x": 1})),
        ("which options", lambda: query.bind(given)),
        ("unknown option light", lambda: query.wanting("light")),
    ):
        with pytest.raises(ProcedureError, match=wrong):
            call()


def test_every_procedure_that_touches_data_takes_a_namespace_or_claimed_rows() -> None:
    """The rest either concerns the store, or works on nodes claimed under the namespace."""
    without = {
        query.name for query in catalog() if query.mode != "schema" and "ns" not in query.params
    }
    assert without == {
        "schema.version",
        "schema.stamp",
        "schema.indexes",
        "schema.namespace",
        "schema.resettle",
        *("schema.count_successes", "schema.drop_superseded"),
        *(f"schema.put_{kind}" for kind in ("tallies", "outcomes")),
        *(f"schema.weigh_{name}" for name in ("heuristics", "anti_patterns")),
        *(f"lessons.{name}" for name in ("merge", "unmerge")),
        *(f"explaining.{name}" for name in ("course", "trend", "turns", "verdict_turns")),
        *("rates.weigh", "rates.more"),
        "maintenance.link_heuristics",
        "maintenance.link_anti_patterns",
        "maintenance.namespaces",
        "maintenance.inhabited",
    }


def test_the_code_names_every_procedure_in_full_or_by_a_table_of_kinds() -> None:
    """A search for a name finds who runs it; what is made of a kind's name is in its table."""
    code = [file.read_text(encoding="utf-8") for file in (ROOT / "graphmem").rglob("*.py")]
    kinds = {kind.name for kind in KINDS} | set(TEXTS.values())
    kinds |= {kind.replace("-", "_") for kind in NODE_KINDS}
    for query in catalog():
        subject, _, name = query.name.partition(".")
        name = name.removesuffix("_edges")
        by_kind = any(name == kind or name.endswith(f"_{kind}") for kind in kinds)
        by_kind = by_kind or any(name.startswith(f"{kind}_by_") for kind in kinds)
        for_people = query.mode == "schema" or subject == "analysis" or query.install
        assert by_kind or for_people or any(f'"{query.name}"' in text for text in code), query.name


@pytest.mark.parametrize("name", ["what_works", "analysis.what_work"])
def test_one_word_is_a_name(name: str) -> None:
    with pytest.raises(NotFoundError, match=f"no procedure '{name}'; `graphmem procedures list`"):
        readable(name)
