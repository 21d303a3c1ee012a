"""The words that a text is found by."""

from __future__ import annotations

import hypothesis
import hypothesis.strategies as st
import pytest

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
