"""What a text says: words, tokens, the type of its task, and the class of an error."""

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
from graphmem.text.error_classes import MAX_CLASS, error_class
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


# Error classes: what is masked, what stays, and what holds for every text

SQL = "Error executing query: "
BELOW = "\n[SQL: SELECT a FROM b]\n(Background on this error at: https://a.example/e)"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("no flight 'HAT030' for \"Mia Li\" on `monday`", "no flight <text> for <text> on <text>"),
        ("balance is 12.50, needed -3 or 1,200", "balance is <number>, needed <number>"),
        ("in 900ms, then 1.5s (12% used)", "in <number>, then <number> (<number> used)"),
        ("not enough seats on flight HAT290", "not enough seats on flight <id>"),
        ("row 3f2504e0-4f89-41d3-9a0c-0305e82c3301 is locked", "row <uuid> is locked"),
        ("bad token 0x1F at deadbeefdeadbeef", "bad token <hex> at <hex>"),
        ("no seats on 2026-05-13", "no seats on <time>"),
        ("2026-05-13T10:00:00.123Z worker died", "<time> worker died"),
        ("expired on Mon, 13 May 2026 10:00:00 GMT", "expired on <time>"),
        ("cannot read /home/mia/notes.txt.", "cannot read <path>."),
        ("main.py:12:3: bad indent in src/app/x.py", "<path>: bad indent in <path>"),
        (r"cannot open C:\Program Files\x\y.dll now", "cannot open <path> now"),
        ("GET https://a.example/x?id=3, then stop", "GET <url>, then stop"),
        ("no mailbox mia.li+x@mail.example", "no mailbox <email>"),
        ("10.0.0.7:8080 refused, fe80::1 is down", "<ip> refused, <ip> is down"),
        ("unknown columns 'a', 'b' and 'c'", "unknown columns <text>"),
        ("  several\n\tlines \x1b[31mred\x1b[0m ", "several lines red"),
        # A statement under a message does not count.
        (f"no such column: a{BELOW}", "no such column: a"),
        ('no "a"\nLINE 1: SELECT a\n          ^', "no <text>"),
        # No program writes such, but a class is stable: each mask lets two other quotes meet.
        ("1'1'r' '\"", "number text"),
    ],
)
def test_particulars_are_masked(text: str, expected: str) -> None:
    assert error_class(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "ERROR 1054: Unknown column",
        "HTTP 404 Not Found",
        "Command returned non-zero exit status 1",
        "[Errno 2] No such file or directory",
        "SQLSTATE[42S02]: base table missing",
        "error[E0382]: borrow of moved value",
        "it doesn't match what can't be",
        "read and/or write: n/a",
        "the users' table",
        "an unclosed 'quote",
        "",
    ],
)
def test_words_and_numbers_that_say_which_error_it_is_stay(text: str) -> None:
    assert error_class(text) == text


def test_a_statement_that_mysql_quotes_is_masked_with_its_quotes_and_lines() -> None:
    syntax = SQL + "You have an error in your SQL syntax near '{}' at line {}"
    expected = SQL + "You have an error in your SQL syntax near <text> at line <number>"
    assert error_class(syntax.format("", 1)) == expected
    assert error_class(syntax.format("WHERE nation <> 'USA'", 2)) == expected
    assert error_class(syntax.format('Reward: 1.0\n"Count" `the` don\'t', 31)) == expected


def test_a_quoted_or_wrapped_message_is_read_for_what_it_says() -> None:
    message = "Unknown column 'a' in 'field list'"
    assert error_class(f'(1054, "{message}")') == "error 1054: Unknown column <text> in <text>"
    assert error_class(f'"{message}"') == "Unknown column <text> in <text>"
    answer = "{'code': 3, 'error': 'Rate limit of key \\'x\\' is 30'}"
    assert error_class(answer) == "{<text>: <number>, error: Rate limit of key <text> is <number>}"
    # other errors of MySQL stay other errors
    assert error_class("(1146, \"Table 'a' doesn't exist\")") != error_class(f'(1054, "{message}")')


def test_of_a_traceback_only_the_exception_counts() -> None:
    short = "Traceback (most recent call last):\n  File 'a.py', line 1, in f\nKeyError: 'x'\n"
    long = (
        'Traceback (most recent call last):\n  File "b.py", line 7, in g\n    h()\n'
        "ValueError: bad\n\nDuring handling of the above exception, another exception occurred:\n\n"
        'Traceback (most recent call last):\n  File "b.py", line 9, in g\n    k()\nKeyError: 7'
    )
    assert error_class("tool failed: " + short) == "tool failed: KeyError: <text>"
    assert error_class(long) == "KeyError: <number>"
    script = "TypeError: no function\n    at f (/srv/a.js:1:2)\n    at g (/srv/b.js:3:4)"
    assert error_class(script) == "TypeError: no function"


@pytest.mark.parametrize("text", ["", " ", "\n\t \u00a0", "\x00\u200b", "''", '" "'])
def test_nothing_has_the_empty_class_or_that_of_a_quote(text: str) -> None:
    assert error_class(text) in ("", "<text>")
    assert (error_class(text) == "") == ("'" not in text or text == "''")


# texts made of what the rules look at, and of what they must not fall over
PIECES = st.sampled_from(
    [
        *("'", "''", '"', "`", "“", "”", "\\", "\\\\", "/", "./", "~/", ":", "://", "@", ".", ","),
        *("-", "+", "%", "(", ")", "[", "]", "{", "}", "<", ">", "=", "|", "#", " ", "  ", "\n"),
        *("\n  at ", "Traceback (most recent call last):", "near '", "' at line "),
        *("error ", "code ", "HTTP ", "exit status ", "(1054, ", "'error': ", '"message":"', "May"),
        *("12", "1.5", "10:00:00", "2026-05-13", "T", "Z", "0x1f", "deadbeefdeadbeef", "A1-B2"),
        *("a", "x.py", "C:", "doesn't", "<text>", "<number>", " and ", "é", "٣", "\x1b[1m"),
        "\n[SQL: ",
    ]
)
TEXTS = st.one_of(st.text(), st.lists(PIECES, max_size=40).map("".join))


@given(TEXTS)
def test_the_class_of_a_class_is_that_class(text: str) -> None:
    found = error_class(text)
    assert error_class(found) == found
    assert len(found) <= MAX_CLASS
    assert found == " ".join(found.split())


NAMES = st.text(st.characters(categories=["L", "N"], include_characters="_. -"), min_size=1)


@given(NAMES, NAMES, st.integers(0), st.integers(0))
def test_names_in_quotes_and_numbers_do_not_matter(
    name: str, other: str, number: int, count: int
) -> None:
    text = "Table '{}' doesn't have {} rows"
    assert error_class(text.format(name, number)) == error_class(text.format(other, count))
    assert error_class(text.format(name, number)) == "Table <text> doesn't have <number> rows"


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "unit",
    [
        *("'", "'a ", " 'a'b", "a''", "\\'", '"', "`", "“", "«", "\\\\ ", "\\\\a\\"),
        *("/", "/a", "a/", "a.", "x.py ", "http://a.", "a@", "a-b", "C:\\a "),
        *("1", "1.", "1:", "1-", "A1-", "f:", "deadbeef", "May 3 ", "2026-05-13 "),
        *("near '", "(123, '", "'error':\"", "Traceback (most recent call last):\n", "\n at "),
    ],
)
def test_a_megabyte_that_never_comes_to_its_end_is_read_once(unit: str) -> None:
    """A pattern that begins again at every character would need days, not a second."""
    text = unit * (1_000_000 // len(unit))
    assert len(error_class(text + "xyzz")) <= MAX_CLASS
