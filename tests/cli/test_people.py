"""``graphmem people``: what users want, what is known, and what agents may learn and read."""

from __future__ import annotations

from tests.cli.running import good

MONDAY = ("--at", "2026-05-04T09:00:00Z")
TUESDAY = ("--at", "2026-05-05T09:00:00Z")


def test_preferences(url: str) -> None:
    prefer = ("--url", url, "people", "prefer", "ann", "seat")
    assert good(*prefer, "on the aisle", *TUESDAY).out == "stored: ann wants on the aisle\n"
    assert good(*prefer, "on the aisle", *TUESDAY).out == "known already: ann wants on the aisle\n"
    late = good(*prefer, "at the window", "--source", "inferred", *MONDAY).out
    assert late == "stored: ann wants at the window; a later one is in force\n"

    ask = ("--url", url, "list", "preferences", "--user", "ann", "--about", "seat")
    assert "at the window" not in good(*ask).out
    history = good(*ask, "--history").out
    assert history.index("on the aisle") < history.index("at the window")
    assert "2026-05-04 09:00  no" in history
    [aisle, window] = good("--json", *ask, "--history").json
    assert (aisle["supersedes"], window["in_force"]) == (window["id"], False)
    assert (window["source"], window["confidence"]) == ("inferred", 0.7)


def test_knowledge(url: str) -> None:
    know = ("--url", url, "people", "know", "refunds")
    stored = good("--json", *know, "they take five days", "--user", "ann").json
    again = good(*know, "they take five days", "--user", "ann").out
    assert again == f"known already: knowledge {stored['id']}, confidence 1.000\n"
    documented = ("three days", "--source", "documented", "--contradicts", stored["id"])
    assert good(*know, *documented).out.endswith(", confidence 0.356\n")

    shown = good("--url", url, "list", "knowledge").out
    assert stored["id"] in shown  # whole, so that it can be copied
    for part in ("they take five days", "0.556", "ann", "documented", "three days"):
        assert part in shown
    assert good("--url", url, "list", "knowledge", "--about", "seats").out == ("no knowledge\n")


def test_scopes(url: str) -> None:
    scope = ("--url", url, "people", "scope")
    given = ("--can-learn", "sql_*", "--can-learn", "web", "--cannot-learn", "sql_admin")
    more = ("--share-with", "*", "--inherit-from", "ada", "--min-occurrences", "4")
    assert good(*scope, "grace", *given, *more).out == "set the scope of grace\n"
    [stored] = good("--url", url, "--json", "list", "scopes").json
    assert stored == {
        "agent": "grace", "can_learn": ["sql_*", "web"], "cannot_learn": ["sql_admin"],
        "share_with": ["*"], "inherit_from": ["ada"], "min_occurrences": 4,
    }  # fmt: skip
    good(*scope, "ada", "--share-with", "grace")
    shown = good("--url", url, "list", "scopes").out
    assert shown.index("everything") < shown.index("sql_*, web")
    assert good(*scope, "ada", "--remove").out == "removed the scope of ada\n"
    assert good(*scope, "ada", "--remove").out == "ada had no scope\n"
    assert good("--json", *scope, "grace", "--remove").json == {"removed": True}
    assert good("--url", url, "list", "scopes").out == "no scopes\n"
