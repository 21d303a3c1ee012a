"""``graphmem predictions``: expecting, resolving, and how well that went, as a person sees it."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphmem import Memory
from tests.cli.running import good, run


@pytest.fixture
def foreseen(url: str) -> str:
    """A memory with nine resolved predictions, one open, and one that is due."""
    outcomes = [(0.9, True)] * 4 + [(0.9, False)] + [(0.2, False)] * 3 + [(0.2, True)]
    with Memory.open(url) as memory:
        memory.learn("refund", "ask $first$, then 写", success=True)
        for probability, happened in outcomes:
            made = memory.predictions.expect("ask $first$, then 写", probability=probability)
            memory.predictions.resolve(made.id, happened=happened)
    due = ("--due", "2026-05-01T10:00:00Z", "--key", "due")
    good("--url", url, "predictions", "expect", "night build", "--outcome", '{"m": 12}', *due)
    good("--url", url, "predictions", "expect", "night build", "--probability", "0.7")
    return url


def test_expect_and_resolve(url: str) -> None:
    made = good("--url", url, "--json", "predictions", "expect", "x", "--probability", "0.75").json
    assert (made["subject"], made["kind"], made["status"]) == ("x", "free", "open")
    done = good("--url", url, "predictions", "resolve", made["id"], "--happened", "no")
    assert done.out == "error 0.750, it did not happen\n"

    asked = ("expect", "x", "--outcome", '{"minutes": 10, "green": true}', "--agent", "ada")
    made = good("--url", url, "--json", "predictions", *asked).json
    assert (made["outcome"], made["agent"]) == ({"minutes": 10, "green": True}, "ada")
    actual = ("--actual", '{"minutes": 20, "green": true}')
    done = good("--url", url, "--json", "predictions", "resolve", made["id"], *actual)
    assert (done.json["error"], done.json["happened"]) == (0.25, True)


def test_what_it_is_about_is_told(foreseen: str) -> None:
    asked = ("--url", foreseen, "predictions", "expect")
    strategy = good(*asked, "ask $first$, then 写", "--probability", "1").out
    assert strategy.startswith("stored prediction ")
    assert strategy.endswith(" about a strategy\n")
    assert " about something else\n" in good(*asked, "ask", "--probability", "1").out


def test_a_key_is_stored_once(url: str) -> None:
    asked = ("--url", url, "predictions", "expect", "x", "--key", "run 1", "--probability")
    first, again = good(*asked, "0.5").out, good(*asked, "0.5").out
    assert again == first.replace("stored", "known already:")
    other = run(*asked, "0.6")
    assert (other.code, other.out) == (2, "")
    assert "run 1" in other.err


def test_predictions_as_a_table(foreseen: str) -> None:
    every = good("--url", foreseen, "predictions", "list").out
    assert "ask $first$, then 写" in every
    assert every.count("did not happen") == 4
    assert "open, due 2026-05-01" in every
    assert '{"m": 12}' in every

    waiting = good("--url", foreseen, "predictions", "list", "--status", "open").out
    assert waiting.count("night build") == 2
    assert "happen" not in waiting
    [only] = good(
        "--url", foreseen, "--json", "predictions", "list", "--status", "open", "--limit", "1"
    ).json
    assert only["id"] in waiting  # whole, so that it can be copied
    none = good("--url", foreseen, "predictions", "list", "--subject", "nobody").out
    assert none == "no prediction fits\n"


def test_what_is_due_expires(foreseen: str) -> None:
    assert good("--url", foreseen, "predictions", "expire").out == "1 prediction expired\n"
    assert good("--url", foreseen, "--json", "predictions", "expire").json == {"expired": 0}
    assert "expired" in good("--url", foreseen, "predictions", "list").out


def test_reliability(foreseen: str) -> None:
    shown = good("--url", foreseen, "predictions", "reliability").out
    assert "0.9 to 1 " in shown
    assert "4 of 5" in shown
    assert "5 of 9 happened (base rate 0.556)" in shown
    assert "Brier score 0.179 (always saying the base rate: 0.247)" in shown
    assert "expected calibration error 0.078" in shown

    found = good("--url", foreseen, "--json", "predictions", "reliability", "--bins", "2").json
    assert [one["count"] for one in found["bins"]] == [4, 5]
    nobody = good("--url", foreseen, "predictions", "reliability", "--agent", "nobody").out
    assert nobody == "no prediction with a probability was resolved yet\n"


@pytest.mark.parametrize(("name", "magic"), [("r.png", b"\x89PNG"), ("r.SVG", b"<?xml")])
@pytest.mark.parametrize("agent", ["default", "nobody"])
def test_a_diagram_is_drawn(
    foreseen: str, tmp_path: Path, name: str, magic: bytes, agent: str
) -> None:
    pytest.importorskip("matplotlib")
    file = tmp_path / name
    asked = ("predictions", "reliability", "--agent", agent, "--plot", str(file))
    assert f"drawn in {file}" in good("--url", foreseen, *asked).out
    assert file.read_bytes().startswith(magic)
    assert len(file.read_bytes()) > 10_000


def test_without_matplotlib_the_remedy_is_named(foreseen: str, tmp_path: Path) -> None:
    (tmp_path / "matplotlib.py").write_text("raise ImportError")
    asked = ("predictions", "reliability", "--plot", str(tmp_path / "r.png"))
    done = run("--url", foreseen, *asked, PYTHONPATH=str(tmp_path))
    assert (done.code, done.out) == (2, "")
    assert "pip install matplotlib" in done.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("expect", "x"), "nothing is expected"),
        (("expect", "x", "--probability", "2"), "probability"),
        (("expect", "x", "--outcome", "{"), "'--outcome': '{' is not JSON"),
        (("expect", "x", "--outcome", "[1]"), "is not a JSON object"),
        (("expect", "x", "--outcome", '{"a": NaN}'), "outcome"),
        (("expect", "x", "--probability", "1", "--due", "2026-05-01"), "has no time zone"),
        (("resolve", "x"), "give --actual JSON, --happened yes or --happened no"),
        (("resolve", "x", "--happened", "maybe"), "--happened"),
        (("resolve", "x", "--happened", "yes"), "no prediction 'x'"),
        (("list", "--status", "lost"), "--status"),
        (("reliability", "--bins", "0"), "--bins"),
        (("reliability", "--plot", "r.gif"), ".png or .svg"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_wrong_usage_exits_with_2(foreseen: str, arguments: tuple[str, ...], message: str) -> None:
    done = run("--url", foreseen, "predictions", *arguments)
    assert (done.code, done.out) == (2, "")
    assert message in done.err
