"""Tokens are those of BERT's uncased vocabulary, as its authors describe them."""

from __future__ import annotations

import hashlib
from importlib.resources import files

import hypothesis
import hypothesis.strategies as st
import pytest

from graphmem.errors import ValidationError
from graphmem.text.tokens import count_tokens


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


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("", ""),
        ("  \n\t", ""),
        ("hello world", "hello world"),
        ("Refund a CANCELLED flight!", "ref ##und a cancelled flight !"),
        ("unaffable", "una ##ffa ##ble"),
        ("naïve café", "naive cafe"),
        ("日本語", "日 本 語"),
        ("it's 3.14%", "it ' s 3 . 14 %"),
        ("[SEP]", "[ sep ]"),
        ("x" * 101, "[UNK]"),
        ("a\x00b\u200bc", "abc"),
    ],
)
def test_known_texts(text: str, pieces: str) -> None:
    """As BERT's own tokenizer and other implementations of it split them."""
    assert count_tokens(text) == len(pieces.split())


@hypothesis.given(st.text(), st.text())
def test_tokens_of_lines_add_up(one: str, other: str) -> None:
    assert count_tokens(f"{one}\n{other}") == count_tokens(one) + count_tokens(other)


@pytest.mark.parametrize("value", ["half \ud83d", None, b"bytes"])
def test_what_is_no_text_is_refused(value: str) -> None:
    with pytest.raises(ValidationError, match="text: is not a text"):
        count_tokens(value)
