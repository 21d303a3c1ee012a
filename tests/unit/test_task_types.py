"""Task types: what the wording of a task says of its type, and what it does not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphmem.text.task_types import GENERAL, TaskType, infer_task_type


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
