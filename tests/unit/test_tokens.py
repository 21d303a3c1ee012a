"""Tokens are those of BERT's uncased vocabulary, as its authors describe them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import cache
from importlib.resources import files

import hypothesis
import hypothesis.strategies as st
import pytest

from graphmem.errors import ValidationError
from graphmem.text.tokens import LONGEST_WORD, count_tokens, tokens


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
