"""Task types, inferred from the wording of a task.

A few rules look at whole words within one sentence. If no rule fires, the type is ``general``.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import chain, pairwise
from typing import NamedTuple

from graphmem.printable import with_s

GENERAL = "general"


class TaskType(NamedTuple):
    """A type, and the name of the rule that fired (``general`` if none did)."""

    name: str
    rule: str


def _verbs(*words: str) -> frozenset[str]:
    """Return regular verbs with their inflections; ``+`` marks a doubled last letter."""
    forms: set[str] = set()
    for word in words:
        base = word.rstrip("+")
        stem = base + base[-1] if word.endswith("+") else base.removesuffix("e")
        past = (base[:-1] + "i" if with_s(base).endswith("ies") else stem) + "ed"
        forms |= {base, with_s(base), past, stem + "ing"}
    return frozenset(forms)


def _nouns(*words: str) -> frozenset[str]:
    return frozenset({*words, *map(with_s, words)})


_TEST = _verbs("test", "retest", "pretest") | {"pytest", "tester", "testers"}
_VALIDATE = _verbs("validate") | _nouns("validation")
_API = _nouns("api", "endpoint")
_CALL = _verbs("call", "invoke", "request")
_CHECK = _TEST | _VALIDATE | _verbs("verify")
_FORM = _nouns("form", "input field", "form field", "web form")
_SQL = frozenset({"sql", "mysql", "postgresql", "sqlite"})
_DATABASE = _nouns("database", "db", "table", "schema")
_QUERY = _nouns("query") | _verbs("query", "select") | _nouns("statement")
_BUG = _nouns("bug", "crash", "traceback", "stack trace", "segfault", "failing test", "memory leak")
_FIX = _verbs("fix", "diagnose", "reproduce", "trace") | {"find", "hunt", "track"}
_CODE = _nouns("function", "method", "algorithm", "parser", "source code") | {
    *("python", "java", "javascript", "typescript", "rust", "golang")
}
_PROGRAM = _verbs("implement", "refactor") | {"write", "writing", "rewrite"}
_TEXT = _nouns("email", "letter", "essay", "article", "blog", "poem", "newsletter", "speech")
_COMPOSE = _verbs("draft", "compose") | {"write", "writing", "rewrite", "proofread"}
_DATA = _nouns("dataset", "data set", "csv", "spreadsheet", "dataframe") | {"data"}
_ANALYSE = _verbs("analyse", "analyze", "plot+", "visualise", "visualize") | {"analysis"}
_WEB = frozenset({"web", "internet", "online", "website", "websites"})
_SEARCH = _verbs("search", "browse") | {"look up"}
_SUMMARY = _verbs("summarise", "summarize")

# The name of a rule, and its type: it fires if a sentence has a word, or a pair, from each set.
_RULES: tuple[tuple[str, str, tuple[frozenset[str], ...]], ...] = (
    ("fill or test a form", "form_testing", (_verbs("fill", "submit+") | _TEST, _FORM)),
    ("check an API", "api_testing", (_CHECK, _API)),
    ("call an API", "api_testing", (_CALL, _API)),
    ("check a database", "database_validation", (_CHECK, _nouns("database", "db", "schema"))),
    ("debug", "debugging", (_verbs("debug+", "troubleshoot"),)),
    ("fix a bug", "debugging", (_FIX, _BUG)),
    ("test", "testing", (_TEST | _VALIDATE,)),
    ("query in SQL", "sql_query", (_SQL, _QUERY)),
    ("query a database", "sql_query", (_verbs("query"), _DATABASE)),
    ("program", "coding", (_PROGRAM, _CODE)),
    ("analyse data", "data_analysis", (_ANALYSE, _DATA)),
    ("search the web", "web_search", (_SEARCH, _WEB)),
    ("summarise", "summarization", (_SUMMARY,)),
    ("compose a text", "writing", (_COMPOSE, _TEXT)),
    ("answer questions", "question_answering", (_verbs("answer"), _nouns("question"))),
)
_SENTENCE = re.compile(r"[.!?;]\s|\n")
_WORD = re.compile(r"[^\W_]+")


@lru_cache(maxsize=1_024)
def infer_task_type(description: str) -> TaskType:
    """Return the type of a task from its wording, and the rule that fired."""
    sentences = [_words(sentence) for sentence in _SENTENCE.split(description)]
    for rule, name, needs in _RULES:
        if any(not any(map(words.isdisjoint, needs)) for words in sentences):
            return TaskType(name, rule)
    return TaskType(GENERAL, GENERAL)


def _words(sentence: str) -> frozenset[str]:
    words = _WORD.findall(sentence.lower())
    return frozenset(chain(words, (f"{one} {next_}" for one, next_ in pairwise(words))))
