"""``graphmem scopes``: what agents may learn, as a person sets and sees it."""

from __future__ import annotations

import pytest

from tests.cli.running import good, run


def test_set_show_list_and_unset(url: str) -> None:
    scope = ("--url", url, "scopes")
    asked = ("--can-learn", "sql_*", "--can-learn", "web", "--cannot-learn", "sql_admin")
    more = ("--share-with", "*", "--inherit-from", "ada", "--min-occurrences", "4")
    assert good(*scope, "set", "grace", *asked, *more).out == "set the scope of grace\n"
    made = good("--url", url, "--json", "scopes", "get", "grace").json
    assert made == {
        "agent": "grace",
        "can_learn": ["sql_*", "web"],
        "cannot_learn": ["sql_admin"],
        "share_with": ["*"],
        "inherit_from": ["ada"],
        "min_occurrences": 4,
    }
    shown = good(*scope, "get", "grace").out
    for part in ("sql_*, web", "sql_admin", "ada", "4"):
        assert part in shown

    good(*scope, "set", "ada")
    listed = good(*scope, "list").out
    assert listed.index("ada") < listed.index("grace")
    assert "everything" in listed
    assert [one["agent"] for one in good("--url", url, "--json", "scopes", "list").json] == [
        *("ada", "grace")
    ]
    assert good(*scope, "remove", "ada").out == "removed the scope of ada\n"
    assert good(*scope, "remove", "ada").out == "ada had no scope\n"
    assert good("--url", url, "--json", "scopes", "remove", "grace").json == {"removed": True}
    assert good(*scope, "list").out == "no agent has a scope\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("set", "ada", "--inherit-from", "ada"), "'ada' inherits from 'ada'"),
        (("set", "ada", "--min-occurrences", "0"), "--min-occurrences"),
        (("set", " "), "agent: must not be empty"),
        (("set",), "AGENT"),
        (("get", "nobody"), "agent 'nobody' has no scope"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_wrong_usage_exits_with_2(seeded: str, arguments: tuple[str, ...], message: str) -> None:
    done = run("--url", seeded, "scopes", *arguments)
    assert (done.code, done.out) == (2, "")
    assert message in done.err
