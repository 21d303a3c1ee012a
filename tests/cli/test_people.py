"""``graphmem people``: what users want and what is known, as a person tells and asks it."""

from __future__ import annotations

import pytest

from tests.cli.running import good, run

MONDAY = ("--at", "2026-05-04T09:00:00Z")
TUESDAY = ("--at", "2026-05-05T09:00:00Z")


def test_prefer_and_preferences(url: str) -> None:
    ask = ("--url", url)
    first = (*ask, "people", "prefer", "ann", "seat", "on the aisle", *TUESDAY)
    assert good(*first).out == "stored: ann wants on the aisle\n"
    assert good(*first).out == "known already: ann wants on the aisle\n"
    late = good(
        *ask, "people", "prefer", "ann", "seat", "at the window", "--source", "inferred", *MONDAY
    )
    assert late.out == "stored: ann wants at the window; a later one is in force\n"
    good(*ask, "people", "prefer", "ann", "meal", "vegan")

    shown = good(*ask, "people", "preferences", "ann").out
    assert "on the aisle" in shown
    assert "vegan" in shown
    assert "at the window" not in shown
    history = good(*ask, "people", "preferences", "ann", "--category", "seat", "--history").out
    assert history.index("on the aisle") < history.index("at the window")
    assert "2026-05-04 09:00   no" in history
    [aisle, window] = good(
        *ask, "--json", "people", "preferences", "ann", "--category", "seat", "--history"
    ).json
    assert (aisle["supersedes"], window["in_force"]) == (window["id"], False)
    assert (window["source"], window["confidence"]) == ("inferred", 0.7)
    assert good(*ask, "people", "preferences", "bob").out == "no such preferences\n"


def test_know_and_knowledge(url: str) -> None:
    ask = ("--url", url)
    made = good(
        *ask, "--json", "people", "know", "refunds", "they take five days", "--user", "ann"
    ).json
    again = good(*ask, "people", "know", "refunds", "they take five days", "--user", "ann").out
    assert again == f"known already: knowledge {made['id']}, confidence 1.000\n"
    other = ("people", "know", "refunds", "three days", "--source", "documented")
    lowered = good(*ask, *other, "--contradicts", made["id"]).out
    assert lowered.endswith(", confidence 0.356\n")

    shown = good(*ask, "people", "knowledge").out
    assert made["id"] in shown  # whole, so that it can be copied
    for part in ("they take five days", "0.556", "ann", "documented", "three days"):
        assert part in shown
    [best] = good(*ask, "--json", "people", "knowledge", "--domain", "refunds", "--limit", "1").json
    assert best["contradicted_by"][0]["fact"] == "three days"
    assert best["statements"][0]["user"] == "ann"
    assert good(*ask, "people", "knowledge", "--domain", "seats").out == "nothing is known yet\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("people", "prefer", "ann", "seat", ""), "text: must not be empty"),
        (("people", "prefer", "ann", "seat", "x", "--source", "rumour"), "'correction'"),
        (("people", "prefer", "ann", "seat", "x", "--at", "2026-05-04"), "has no time zone"),
        (("people", "preferences", " "), "user: must not be empty"),
        (("people", "know", "refunds", "x", "--source", "rumour"), "'documented'"),
        (("people", "know", "refunds", "x", "--contradicts", "y"), "no knowledge 'y'"),
        (("people", "knowledge", "--limit", "0"), "--limit"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_wrong_usage_exits_with_2(seeded: str, arguments: tuple[str, ...], message: str) -> None:
    done = run("--url", seeded, *arguments)
    assert (done.code, done.out) == (2, "")
    assert message in done.err
