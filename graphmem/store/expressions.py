"""Expressions that no engine could stop: they look at the clock and at memory between rows only.

One expression can loop for hours, or double a text until memory is gone, which can end the process
or the server. Such queries are refused where their text shows it. Loops over lists from the graph
are not seen.
"""

from __future__ import annotations

import queue
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from math import prod

from graphmem.errors import QueryError
from graphmem.store.allowed import KEYWORDS, Token, tokenize
from graphmem.store.port import Limits, Rows

MOST_TURNS = 10_000
"""Turns of all loops over ``range`` within expressions, one within the other."""
MOST_GROWTH = 1_000
"""How many times its size a value may become from one WITH to the next, over all of them."""

_STAGES = {"WITH", "RETURN", "UNWIND"}
_CLAUSES = {"MATCH", "WHERE", "ORDER", "SKIP", "LIMIT", "CALL", "OPTIONAL", "UNION"} | _STAGES
_PATTERN = re.compile(r"(?:\(\?[a-z]+\))?[^(){}]*")


def check_stoppable(text: str) -> None:
    """Check a text that :func:`~graphmem.store.allowed.only_reads` let through.

    Raises:
        QueryError: an expression could go on where nothing stops it.
    """
    tokens = list(tokenize(text))
    if prod(max(1, size) for size in _ranges(tokens)) > MOST_TURNS:
        raise QueryError(
            f"range() within an expression is limited to {MOST_TURNS:,} turns, all loops "
            "together; use UNWIND range(...) AS x"
        )
    for at, token in enumerate(tokens):
        if token.text == "=~":
            _check_pattern(tokens[at + 1 : at + 3])
        elif token.is_name() and token.name == "reduce" and _text(tokens, at + 1) == "(":
            _check_reduction(tokens[at + 2 : _closing(tokens, at + 1)])
    if prod(_growths(tokens)) > MOST_GROWTH:
        raise QueryError(
            f"the query can make a value over {MOST_GROWTH:,} times as large, by adding it to "
            "itself again and again; that is refused"
        )


GRACE = 2.0
"""Seconds after which nobody waits any more for an engine that does not end a query."""


def hear_in_time(work: Callable[[], Rows], limits: Limits) -> Rows:
    """Run a query in a thread of its own, and return its answer; the wait ends with its time.

    The thread goes on until the engine answers.

    Raises:
        QueryError: the time is over.
    """
    answers: queue.SimpleQueue[Rows | BaseException] = queue.SimpleQueue()

    def run() -> None:
        try:
            answers.put(work())
        except BaseException as error:  # noqa: BLE001 - raised by who waits
            answers.put(error)

    threading.Thread(target=run, name="graphmem-query", daemon=True).start()
    try:
        answer = answers.get(timeout=limits.seconds + GRACE)
    except queue.Empty:
        raise limits.too_long() from None
    if isinstance(answer, BaseException):
        raise answer
    return answer


def _text(tokens: Sequence[Token], at: int) -> str:
    return tokens[at].text.upper() if 0 <= at < len(tokens) else ""


def _closing(tokens: Sequence[Token], at: int) -> int:
    """Return the place of the bracket that closes the one there."""
    depth = 0
    for place in range(at, len(tokens)):
        depth += (tokens[place].text in "([{") - (tokens[place].text in ")]}")
        if not depth:
            return place
    return len(tokens)


def _ranges(tokens: Sequence[Token]) -> Iterator[int]:
    """Yield the sizes of ranges within expressions; rows of ``UNWIND range(..) AS`` are none."""
    for at, token in enumerate(tokens):
        if not (token.is_name() and token.name == "range" and _text(tokens, at + 1) == "("):
            continue
        end = _closing(tokens, at + 1)
        if _text(tokens, at - 1) == "UNWIND" and _text(tokens, end + 1) == "AS":
            continue
        given = "".join(part.text for part in tokens[at + 2 : end]).split(",")
        try:
            first, last, step = [*map(int, given), 1][:3]
            yield len(range(first, last + (1 if step > 0 else -1), step))
        except ValueError:
            raise QueryError(
                "range() within an expression takes numbers, not expressions; use "
                "UNWIND range(...) AS x"
            ) from None
        except OverflowError:
            yield MOST_TURNS + 1


def _check_pattern(following: Sequence[Token]) -> None:
    literal, after = (*following, None, None)[:2]
    simple = (
        literal is not None
        and literal.kind == "string"
        and (after is None or after.text not in ("+", "||"))
        and _PATTERN.fullmatch(literal.text[1:-1])
        and sum(map(literal.text.count, "*+")) <= 2
    )
    if not simple:
        raise QueryError(
            "=~ takes a text in quotes, without groups and with at most two of * and "
            "+, as in '(?i).*refund.*'; CONTAINS is quicker"
        )


def _check_reduction(inside: Sequence[Token]) -> None:
    """Check ``value = start, x IN list | body``: the value may stand once, not in conditions."""
    text = re.sub(r"\bwhere [^|\]]*", "", _plain(inside))
    names = re.findall(r"\w+", text)
    if names and (names.count(names[0]) > 2 or "replace" in names):
        raise QueryError(
            "in reduce() the value that is carried on may stand only once, and without "
            "replace(), for it could double at each turn"
        )


def _growths(tokens: Sequence[Token]) -> Iterator[int]:
    """Yield, for each stage, how often the same value stands in one of what it adds or nests."""
    for at in range(len(tokens)):
        if not _begins(tokens, at, _STAGES):
            continue
        items: list[list[Token]] = [[]]
        depth = 0
        for place in range(at + 1, len(tokens)):
            text = tokens[place].text
            depth += (text in "([{") - (text in ")]}")
            if depth < 0 or (not depth and _begins(tokens, place, _CLAUSES)):
                break
            if text == "," and not depth:
                items.append([])
            items[-1].append(tokens[place])
        yield max(map(_growth, items))


def _growth(item: Sequence[Token]) -> int:
    text = _plain(item)
    if not re.search(r"[+\[{]|\|\||replace", text):
        return 1
    names = re.findall(r"(?<![\w.:$])[a-z_][\w.]*(?![\w.]| \(| :| in )", text)
    return max(Counter(name for name in names if name.upper() not in KEYWORDS).values(), default=1)


def _plain(tokens: Sequence[Token]) -> str:
    """Return a text with names in small letters, without backticks and texts in quotes."""
    words = (
        re.sub(r"\W", "_", token.name) if token.is_name() else token.text
        for token in tokens
        if token.kind != "string"
    )
    return " ".join(words).replace(" . ", ".")


def _begins(tokens: Sequence[Token], at: int, clauses: set[str]) -> bool:
    before = _text(tokens, at - 1)
    return tokens[at].keyword in clauses and before not in (".", ":", "AS", "STARTS", "ENDS")
