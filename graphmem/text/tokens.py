"""Counting tokens as the default embedder does.

MiniLM (all-MiniLM-L6-v2) reads WordPiece tokens of BERT's uncased vocabulary (Devlin et al. 2019,
section 3); the table lies in ``graphmem/data``, with its licence. The marks that a model puts
around a text are not counted. White space separates tokens, so those of lines add up.
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
"""Characters; a longer word is one unknown token (as in BERT)."""


def count_tokens(text: str) -> int:
    """Return how many tokens the default embedder makes of a text, 0 for an empty one.

    Raises:
        ValidationError: it is no text, or holds a lone surrogate.
    """
    try:
        return len(_tokenizer().encode(text, add_special_tokens=False))
    except TypeError:
        raise ValidationError("text", text, "is no text, or holds a lone surrogate") from None


def count_tokens_of_lines(text: str) -> int:
    """Return the same, by lines; what was counted lately is looked up.

    Raises:
        ValidationError: it is no text, or holds a lone surrogate.
    """
    return sum(map(_tokens_of_line, text.split("\n")))


@lru_cache(maxsize=4096)
def _tokens_of_line(line: str) -> int:
    return count_tokens(line)


@cache
def _tokenizer() -> Tokenizer:
    """Return the tokenizer that counts; built at the first count, for that takes a while."""
    return new_tokenizer()


def new_tokenizer(*, marked: bool = False) -> Tokenizer:
    """Return a tokenizer of the default embedder, for the caller alone; it cuts nothing off.

    Args:
        marked: put the marks around a text with which the model was trained.
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
