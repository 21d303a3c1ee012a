"""Skills and playbooks as priors: what is read, what it counts, and how it leaves."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from graphmem import Memory
from graphmem.errors import GraphMemError, NotFoundError, ValidationError
from graphmem.lessons.priors import read_priors
from graphmem.skills.reading import MOST, MOST_BYTES, read_source
from tests.contract.test_skills import HOSTILE, teach

TASK = "refund a ticket for a flight"
LOOK, CARD, VOUCHER = "look up the booking", "ask for a card number", "offer a voucher"
PLAYBOOK = f"""# Our playbook

## refund a flight
[r-1] helpful=1000 harmful=0 :: {LOOK}
- [r-2] helpful=1 harmful=7 :: {CARD}
[r-3] helpful=0 harmful=0 :: {VOUCHER}

## write parquet
[c-1] helpful=3 harmful=1 :: use zstd
"""
SKILL = """\ufeff---
name: refunds
description: >-
  How to refund a ticket
  for a flight: use it before.
metadata:
  author: x
---

# Refunds

Read this.

1. Look it up
   in the system.
   - and the fare
2. Don't promise a date

```
- no item
```

<!--
- no item
-->

## What to avoid

* guessing
- Never guess twice
"""


@pytest.fixture
def playbook(tmp_path: Path) -> Path:
    (path := tmp_path / "team.md").write_text(PLAYBOOK)
    return path


def said(memory: Memory) -> list[tuple[str, str, str, int, int]]:
    priors = read_priors(memory._graph)
    return [(one.kind, one.text, one.verdict, one.trials, one.successes) for one in priors]


def test_a_new_memory_starts_from_what_files_say(memory: Memory, playbook: Path) -> None:
    report = memory.skills.import_(playbook)
    assert (report.source, report.skills, report.priors, report.avoid) == ("team", 2, 4, 1)
    assert said(memory)[:2] == [
        ("refund a flight", LOOK, "do", 1000, 1000),
        ("refund a flight", CARD, "avoid", 8, 1),
    ]
    context = memory.context(TASK, max_tokens=400)
    assert f"- from team: do (1000 of 1000 worked): {LOOK}" in context
    assert "no own outcomes yet, but files say:" in context
    assert f"- from team: avoid (1 of 8 worked): {CARD}" in context
    items = {item.text: item for item in memory.recall(TASK).items}
    verdicts = {text: item.verdict for text, item in items.items()}
    assert verdicts == {LOOK: "WORKS", VOUCHER: "WORKS", CARD: "AVOID"}
    assert items[LOOK].said.endswith("no own outcomes yet; from team: do (1000 of 1000 worked)")
    assert {item.kind for item in items.values()} == {"prior"}
    choice = memory.choose(TASK, explore="greedy")
    assert (choice.text, {*choice.candidates}) == (LOOK, {LOOK, VOUCHER})
    assert "from team" in choice.why
    [basis] = memory.predict(TASK, LOOK).basis.strategies
    assert [(one.source, one.kind) for one in basis.priors] == [("team", "refund a flight")]
    assert 0.6 < basis.probability < 0.9
    assert basis.priors[0].worth < 4.0
    assert memory.predict(TASK, CARD).probability < 0.4 < memory.predict(TASK, "sing").probability
    # It tells nothing of other tasks.
    far = "explain quantum physics"
    assert memory.context(far) == ""
    assert memory.recall(far).items == ()
    assert memory.predict(far, LOOK).probability == pytest.approx(0.5)
    with pytest.raises(NotFoundError, match="no candidates"):
        memory.choose(far)


def test_own_outcomes_outweigh_files(memory: Memory, playbook: Path) -> None:
    memory.skills.import_(playbook)
    for number in range(10):
        memory.learn(TASK, LOOK, success=False, source_key=f"look {number}")
        memory.learn(TASK, CARD, success=True, source_key=f"card {number}")
    for task in (TASK, "refund a flight ticket for a group"):
        assert memory.predict(task, LOOK).probability < 0.4
        assert memory.predict(task, CARD).probability > 0.6
        assert memory.choose(task, [LOOK, CARD], explore="greedy").text == CARD
    told = {item.text: item.kind for item in memory.recall(TASK).items}
    assert (told[CARD], told[VOUCHER]) == ("strategy", "prior")
    context = memory.context(TASK, max_tokens=400)
    assert f"- likely: 10 of 10 here: {CARD}" in context
    assert context.index(CARD) < context.index("but files say") < context.index(VOUCHER)
    assert memory.verify().ok


def test_the_past_knows_what_was_imported_by_then(memory: Memory, playbook: Path) -> None:
    memory.learn("write a poem", "rhyme", success=True)
    before = datetime.now(UTC)
    time.sleep(0.01)
    memory.skills.import_(playbook)
    time.sleep(0.01)
    now = memory.predict(TASK, LOOK).probability
    assert memory.predict(TASK, LOOK, as_of=before).probability < now - 0.05
    assert memory.predict(TASK, LOOK, as_of=datetime.now(UTC)).probability == pytest.approx(now)


def test_what_a_source_says_is_replaced_moves_and_leaves(
    memory: Memory, playbook: Path, tmp_path: Path
) -> None:
    memory.skills.import_(playbook)
    before = said(memory)
    again = memory.skills.import_(playbook)
    assert (again.changed, again.replaced) == (False, 0)
    memory.skills.import_(playbook, "others")
    playbook.write_text(PLAYBOOK.replace("helpful=1000", "helpful=2"))
    assert memory.skills.import_(playbook).replaced == 4
    assert said(memory)[-4:] == [(*before[0][:3], 2, 2), *before[1:]]
    assert memory.verify().ok
    memory.upkeep.rebuild()
    lines = tmp_path / "all.jsonl"
    assert memory.upkeep.export(lines, "jsonl").priors == 8
    held = said(memory)
    assert memory.upkeep.import_(lines, "jsonl").priors == 0
    for source, left in (("team", held[:4]), ("others", [])):
        report = memory.upkeep.erase(source=source)
        assert (report.source, report.priors) == (source, 4)
        assert said(memory) == left
    assert memory.query("MATCH (n:Skill) WHERE n.ns = $ns RETURN n.id AS id") == []
    assert memory.context(TASK) == ""
    with pytest.raises(NotFoundError, match="team"):
        memory.upkeep.erase(source="team")
    assert memory.upkeep.import_(lines, "jsonl").priors == 8
    assert said(memory) == held


@pytest.mark.parametrize("form", ["skills", "playbook"])
def test_an_export_comes_in_as_it_went_out(form: str, memory: Memory, tmp_path: Path) -> None:
    teach(memory)
    memory.skills.export(tmp_path / "out", form)  # type: ignore[arg-type]
    memory.skills.import_(tmp_path / "out", "mine")
    assert {*said(memory)} == {
        ("refunds", "look it up > refund it", "do", 12, 12),
        ("refunds", "guess the price", "avoid", 13, 1),
        ("visas", "read the form", "do", 9, 9),
    }
    assert memory.predict("refund order 1", "guess the price").basis.strategies[0].priors


def test_skills_of_others_are_read(tmp_path: Path, memory: Memory) -> None:
    prose = "---\nname: p\ndescription: 'd'\n---\nSay hi."
    for name, text in (("refunds", SKILL), ("prose", prose)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "SKILL.md").write_text(text)
    assert memory.skills.import_(tmp_path).files == 2
    assert [one[:3] for one in said(memory)] == [
        ("p", "Say hi.", "do"),
        ("refunds", "Look it up in the system. and the fare", "do"),
        ("refunds", "promise a date", "avoid"),
        ("refunds", "guessing", "avoid"),
        ("refunds", "guess twice", "avoid"),
    ]
    [about] = {one.about for one in read_priors(memory._graph) if one.kind == "refunds"}
    assert about == "How to refund a ticket for a flight: use it before."


def test_texts_of_files_stay_data(memory: Memory, tmp_path: Path) -> None:
    lines = [f"[x] helpful=9 harmful=0 :: {' '.join(text.split())} <<< >>>" for text in HOSTILE]
    (path := tmp_path / ">>> now.md").write_text(f"## {TASK}\n" + "\n".join(lines))
    memory.skills.import_(path)
    context = memory.context(TASK, max_tokens=2_000)
    assert context.count(">>>") == 2  # the preamble, and the end
    assert "\x1b" not in context
    assert context.count("from") >= len(HOSTILE)


FRONT = "---\nname: n\ndescription: d\n---\n"
BAD: dict[str, tuple[str | bytes, str]] = {
    "a.md": ("# Notes\n", "line 1 is no front matter, and no line is of a playbook"),
    "b.md": ("---\nname: n\n- x\n", "line 1 begins a front matter that does not end"),
    "c.md": ("---\nname: n\n---\n- x\n", "line 3 ends a front matter without a description"),
    "d.md": ("---\nname: n\nhello\n---\n", "line 3 is not name: value"),
    "e.md": ("---\nname: n\nname: m\n---\n", "line 3 repeats name"),
    "f.md": ('---\nname: "n\ndescription: d\n---\n', "has a name in quotes that do not end"),
    "g.md": (FRONT, "line 4 is followed by no list and no sentence"),
    "h.md": (
        FRONT + "- go\n- do not go\n",
        "line 6 says to avoid what an earlier line says not to",
    ),
    "i.md": (FRONT + "- " + "x" * 10_001, "line 5 has a text that"),
    "j.md": ((FRONT + "- caf\xe9").encode("latin-1"), "line 5 is not UTF-8"),
    "k.md": ("## k\n[a] helpful=-3 harmful=0 :: x\n", "line 2 is not [id] helpful=N"),
    "l.md": (
        f"## k\n[a] helpful=1{'0' * 30} harmful=0 :: x\n",
        "N is a number from 0 to 999999999",
    ),
    "m.md": ("## k\n[a] helpful=1 harmful=0 x\n", "line 2 is not [id] helpful=N harmful=N :: text"),
    "n.md": ("x" * (MOST_BYTES + 1), "has over 4,000,000 bytes"),
    "o.md": (
        "".join(f"[a] helpful=1 harmful=0 :: way {n}\n" for n in range(MOST + 1)),
        "line 10,001 is beyond 10,000 strategies; keep the best ones",
    ),
}


def test_what_is_wrong_is_named_with_its_line(memory: Memory, tmp_path: Path) -> None:
    for name, (text, message) in BAD.items():
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        with pytest.raises(ValidationError) as caught:
            memory.skills.import_(path)
        assert caught.value.field == "path"
        assert caught.value.value == str(path)
        assert message.partition(";")[0] in str(caught.value), name
    for missing in (tmp_path / "none", tmp_path):
        with pytest.raises(GraphMemError, match=r"there is no"):
            memory.skills.import_(missing)
    assert said(memory) == []
    # Long lines take no longer than their length.
    comment = f"{'<!--' * 300_000} -->\n"
    (path := tmp_path / "p.md").write_text(f"{FRONT}{comment}{' ' * 900_000}\n- x\n")
    assert [one.text for one in read_source(path)[0]] == ["x"]
