"""Answers in a notebook: as HTML in which texts stay texts."""

from __future__ import annotations

import types
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from html.parser import HTMLParser
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from hypothesis import given, settings
from hypothesis import strategies as st

from graphmem import Memory
from graphmem.models.advice import Choice, Explanation, Recall
from graphmem.models.fields import Output
from graphmem.models.forecasts import Calibration
from graphmem.models.levels import MemoryMap
from graphmem.models.reports import StrategyRow
from graphmem.notebook import Listed
from graphmem.seeding import SeedReport

HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "'</text></svg><b onclick=x>",
    "&lt;<!-- --></div></details>",
    "a\x00\x1b[31m\u202eb\ud800",
)
TAGS = {"div", "strong", "table", "tbody", "tr", "th", "td", "details", "summary", "p", "br"}
DRAWN = {"svg", "title", "line", "circle", "polygon", "polyline", "rect", "path", "g", "text"}
ATTRIBUTES = {"class", "style", "open", "role", "xmlns"}
MOMENT = datetime(2026, 5, 4, tzinfo=UTC)


class _Reader(HTMLParser):
    """Reads HTML, fails at what does not belong there, and keeps its text."""

    def __init__(self) -> None:
        super().__init__()
        self.text = ""
        self.opened: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in TAGS | DRAWN
        for name, value in attrs:
            assert not name.startswith("on")
            assert tag in DRAWN or name in ATTRIBUTES
            assert "url(" not in (value or "")
        if tag != "br":
            self.opened.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.opened.pop() == tag

    def handle_comment(self, data: str) -> None:
        raise AssertionError(data)

    def handle_data(self, data: str) -> None:
        self.text += data


def read(html: str) -> str:
    """Return the text of HTML in which nothing is but what should be."""
    reader = _Reader()
    reader.feed(html)
    reader.close()
    assert reader.opened == []
    assert not {"\x00", "\x1b", "\u202e", "\ud800"} & set(html)
    return reader.text


def classes(base: type[Output] = Output) -> Iterator[type[Output]]:
    for one in base.__subclasses__():
        yield one
        yield from classes(one)


def filled(wanted: Any, text: str) -> Any:
    """Return a value of a type in which every text is ``text``."""
    origin, inner = get_origin(wanted), get_args(wanted)
    if origin in (Annotated, Union, types.UnionType):
        return filled(inner[0], text)
    if origin is Literal or wanted is str:
        return text
    if origin in (tuple, list):
        return (filled(inner[0], text),) * 2
    if origin in (dict, Mapping) or "Mapping" in str(origin):
        return {text: text, "whole": {text: [text]}}
    if isinstance(wanted, type) and issubclass(wanted, Output):
        return made(wanted, text)
    simple = {int: 3, float: 0.5, bool: True, datetime: MOMENT}
    return simple.get(wanted, {text: text})


def made(answer: type[Output], text: str) -> Output:
    fields = {name: filled(one.annotation, text) for name, one in answer.model_fields.items()}
    return answer.model_construct(**fields)


CLASSES = sorted(classes(), key=str)


def test_texts_in_an_answer_stay_texts() -> None:
    for answer in CLASSES:
        for text in HOSTILE:
            read(made(answer, text)._repr_html_())
    row = made(StrategyRow, "<b>bold</b> & more")
    assert "<b>bold</b> & more" in read(row._repr_html_())
    assert "&lt;b&gt;bold" in row._repr_html_()


@settings(max_examples=40)
@given(st.text())
def test_any_text_stays_a_text(text: str) -> None:
    for answer in (Explanation, Recall, MemoryMap, SeedReport):
        read(made(answer, text)._repr_html_())
    read(Listed([{text: text}, made(StrategyRow, text)])._repr_html_())


def test_print_is_for_people_and_repr_is_exact() -> None:
    """A few lines, without characters that a terminal would obey."""
    for answer in (one for one in CLASSES if one.__str__ is Output.__str__):
        for text in HOSTILE:
            shown = str(made(answer, text))
            assert shown
            assert not {"\x00", "\x1b", "\u202e", "\ud800"} & set(shown)
    why = "4 of 5 here: expected 71%"
    choice = made(Choice, "ask").model_copy(update={"why": why})
    assert str(choice).splitlines()[:3] == [f"ask: {why}", "  ask: ask", "  ask: ask"]
    assert repr(choice).startswith("Choice(text='ask', trials=3, successes=3, ")
    row = {"agent": "ada", "rate": 2 / 3, "last_at": MOMENT}
    assert (
        str(Listed([row, choice]))
        == f"agent ada, rate 0.667, latest episode 2026-05-04 00:00\nask: {why}"
    )
    assert str(Listed()) == "[]"
    assert repr(Listed([row])) == repr([row])


def test_pictures_are_drawn() -> None:
    for answer in (Explanation, Calibration):
        assert "<circle " in made(answer, "a")._repr_html_()


def test_long_lists_and_texts_are_cut() -> None:
    html = Listed([{"text": "x" * 1_000}] * 60)._repr_html_()
    assert "and 10 more" in read(html)
    assert "x" * 301 not in html
    assert read(Listed([])._repr_html_()) == "nothing"


def test_a_memory_says_what_and_where_it_is() -> None:
    with Memory.open("memory:", namespace="team") as memory:
        memory.learn("a task", "<i>a way</i>", success=True)
        assert repr(memory) == "<Memory of namespace 'team' at 'memory:'>"
        assert "Episodes1" in read(memory.stats()._repr_html_())
        assert "<i>a way</i>" in read(memory.strategies()._repr_html_())
        rows = memory.query("MATCH (s:Strategy) WHERE s.ns = $ns RETURN s.text AS text")
        assert "<i>a way</i>" in read(rows._repr_html_())
