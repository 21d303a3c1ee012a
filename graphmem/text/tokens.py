"""Counts tokens as the default embedder does.

MiniLM (all-MiniLM-L6-v2) uses WordPiece tokens of BERT's uncased vocabulary (Devlin et al. 2019,
section 3); the table is in ``graphmem/data``, with its licence. The special tokens around a text
are not counted. White space separates tokens, so the counts of lines add up.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING

from graphmem.errors import ValidationError

if TYPE_CHECKING:
    from tokenizers import Tokenizer

Counter = Callable[[str], int]
"""Returns how many tokens a text has."""

LONGEST_WORD = 100
"""Most characters in a word; a longer word is one unknown token (as in BERT)."""


def count_tokens(text: str) -> int:
    """Return the number of the default embedder's tokens in a text, 0 if it is empty.

    Raises:
        ValidationError: it is not a text, or contains a lone surrogate.
    """
    try:
        return len(_tokenizer().encode(text, add_special_tokens=False))
    except TypeError:
        raise ValidationError("text", text, "is not a text, or contains a lone surrogate") from None


def count_tokens_of_lines(text: str) -> int:
    """Return the same count, line by line; counts of recent lines are cached.

    Raises:
        ValidationError: it is not a text, or contains a lone surrogate.
    """
    return sum(map(_tokens_of_line, text.split("\n")))


@lru_cache(maxsize=4096)
def _tokens_of_line(line: str) -> int:
    return count_tokens(line)


@cache
def _tokenizer() -> Tokenizer:
    """Return the counting tokenizer; it is built on first use, because that takes a while."""
    return new_tokenizer()


def new_tokenizer(*, marked: bool = False) -> Tokenizer:
    """Return a new tokenizer of the default embedder, without truncation.

    Args:
        marked: add the special tokens around a text, as in the model's training.
    """
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
    if marked:
        from tokenizers.processors import BertProcessing

        first, last = "[CLS]", "[SEP]"
        tokenizer.post_processor = BertProcessing((last, places[last]), (first, places[first]))
    return tokenizer
