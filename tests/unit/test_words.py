"""What a text says: the words that it is found by, its tokens, and the type of its task."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import cache
from importlib.resources import files

import hypothesis
import hypothesis.strategies as st
import pytest
from hypothesis import given

from graphmem.errors import ValidationError
from graphmem.text.task_types import GENERAL, TaskType, infer_task_type
from graphmem.text.tokens import LONGEST_WORD, count_tokens, tokens
from graphmem.text.words import LONGEST, STOP_WORDS, words


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("the and of", []),
        ("Cancel the flight!", ["cancel", "flight"]),
        ("cancelReservation, book_flight > HTTPError", "cancel reservation book flight httperror"),
        ("order ORD-77421", ["order", "ord", "77421"]),
        ("退款 航班", ["退", "款", "航", "班"]),
        ("\uff46\uff55\uff4c\uff4c width", ["full", "width"]),
        ("Straße señor", ["straße", "señor"]),
        ("🛫", []),
    ],
)
def test_words_of_a_text(text: str, expected: list[str] | str) -> None:
    assert words(text) == (expected.split() if isinstance(expected, str) else expected)


@hypothesis.given(st.text(max_size=300))
def test_words_are_found_again(text: str) -> None:
    """Words of words are the same words, so that both sides of a search agree."""
    found = words(text)
    assert words(" ".join(found)) == found
    assert all(0 < len(word) <= LONGEST and word not in STOP_WORDS for word in found)


@hypothesis.given(st.text(st.characters(max_codepoint=127)))
def test_the_short_way_for_ascii_finds_the_same_words(text: str) -> None:
    assert words(f"{text} \u98db") == [*words(text), "\u98db"]


# Tokens are those of BERT's uncased vocabulary, as its authors describe them


def test_the_table_is_the_published_one() -> None:
    folder = files("graphmem").joinpath("data")
    table = folder.joinpath("vocabulary.txt").read_bytes()
    digest = hashlib.sha256(table).hexdigest()
    assert digest in folder.joinpath("NOTICE").read_text().replace("\n", " ")
    lines = table.decode().split("\n")[:-1]
    assert len(lines) == len(set(lines)) == 30_522
    assert [lines.index(mark) for mark in ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")] == [
        *(0, 100, 101, 102, 103)
    ]


@hypothesis.given(st.text(), st.text())
def test_tokens_of_lines_add_up(one: str, other: str) -> None:
    assert count_tokens(f"{one}\n{other}") == count_tokens(one) + count_tokens(other)


@pytest.mark.parametrize("value", ["half \ud83d", None, b"bytes"])
def test_what_is_no_text_is_refused(value: str) -> None:
    with pytest.raises(ValidationError, match="text: is not a text"):
        count_tokens(value)


@cache
def reference() -> Callable[[str], list[int]]:
    """Return what tokenizes a text by the library of the model's makers."""
    from tokenizers import Tokenizer
    from tokenizers.models import WordPiece
    from tokenizers.normalizers import BertNormalizer
    from tokenizers.pre_tokenizers import BertPreTokenizer

    table = files("graphmem").joinpath("data", "vocabulary.txt").read_text(encoding="utf-8")
    places = {token: place for place, token in enumerate(table.split("\n")[:-1])}
    model = WordPiece(places, unk_token="[UNK]", max_input_chars_per_word=LONGEST_WORD)  # noqa: S106
    tokenizer = Tokenizer(model)
    tokenizer.normalizer = BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = BertPreTokenizer()
    return lambda text: tokenizer.encode(text, add_special_tokens=False).ids


@pytest.mark.parametrize("first", [*range(0, 0x30000, 0x8000), 0xE0000, 0x100000])
def test_every_character_is_read_as_by_the_library_of_the_makers(first: int) -> None:
    codes = [code for code in range(first, first + 0x8000) if not 0xD800 <= code < 0xE000]
    text = " ".join(f"a{chr(code)}b {chr(code)}" for code in codes)
    assert tokens(text) == reference()(text)


@hypothesis.given(st.text() | st.text(st.characters(max_codepoint=0x24F)))
@hypothesis.example("Ångström ΣΑΣ İstanbul ﬁne e\u0301\u0323 \u0344x")
def test_any_text_is_read_as_by_the_library_of_the_makers(text: str) -> None:
    assert tokens(text) == reference()(text)


# Types of tasks


@pytest.mark.parametrize(
    ("task", "name", "rule"),
    [
        ("Validate form", "testing", "test"),
        ("fill input form", "form_testing", "fill or test a form"),
        ("test the login form", "form_testing", "fill or test a form"),
        ("verify that the API answers", "api_testing", "check an API"),
        ("Testing all endpoints of the shop", "api_testing", "check an API"),
        ("call API endpoint", "api_testing", "call an API"),
        ("validate the database after the migration", "database_validation", "check a database"),
        ("write a unit test for the parser", "testing", "test"),
        ("debug the failing tests", "debugging", "debug"),
        ("find the bug in the checkout", "debugging", "fix a bug"),
        ("write an SQL query for the monthly sales", "sql_query", "query in SQL"),
        ("query the orders table", "sql_query", "query a database"),
        ("implement a function that sorts", "coding", "program"),
        ("analyse the data of May", "data_analysis", "analyse data"),
        ("plotting a CSV", "data_analysis", "analyse data"),
        ("search the web for a hotel", "web_search", "search the web"),
        ("summarised the meeting", "summarization", "summarise"),
        ("draft an email to Mia", "writing", "compose a text"),
        ("answer the questions of the survey", "question_answering", "answer questions"),
    ],
)
def test_the_wording_gives_type_and_rule(task: str, name: str, rule: str) -> None:
    assert infer_task_type(task) == TaskType(name, rule)


@pytest.mark.parametrize(
    "task",
    [
        *("", "t", "a task", "task 3", "book a flight", "refund a cancelled flight", "sort a list"),
        *("deploy", "deploy service", "report", "verify", "check", "sell", "change a seat", "walk"),
        *("call the airline", "clean the database", "write", "answer the phone", "Größe 💡"),
        *("collect the data", "fix the chair", "form a team", "the SQL server is down"),
        # A part of a word says nothing: "api" in "rapid", "test" in "latest", "form" in "perform".
        *("rapid prototyping", "call rapidly", "the latest contest", "perform the input"),
    ],
)
def test_what_says_no_type_is_general(task: str) -> None:
    assert infer_task_type(task) == TaskType(GENERAL, GENERAL)


def test_the_words_of_a_rule_stand_in_one_sentence() -> None:
    assert infer_task_type("Test the new API").name == "api_testing"
    assert infer_task_type("Read about the API. Then look at the test.").name == "testing"


TASKS = st.sampled_from(["fill the form", "verify the api", "query the table", "sell"])


@given(TASKS, st.text(" -_"))
def test_case_and_separators_do_not_matter(task: str, space: str) -> None:
    expected = infer_task_type(task)
    assert infer_task_type(task.upper()) == expected
    assert infer_task_type(task.replace(" ", f" {space}_")) == expected


@given(st.text())
def test_every_text_has_a_type(text: str) -> None:
    name, rule = infer_task_type(text)
    assert (name == GENERAL) == (rule == GENERAL)
    assert infer_task_type(text) == (name, rule)


def test_a_megabyte_of_words_is_read_once() -> None:
    assert infer_task_type("form " * 200_000).name == GENERAL
    assert infer_task_type("a. " * 300_000 + "test it").name == "testing"
