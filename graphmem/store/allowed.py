"""What Cypher of others may do: read the graph, with the functions and procedures below.

A text is cut into tokens. What the engine gets is not the text but those tokens, in their places,
with blanks for everything else: comments and other kinds of white space mean the same to both
engines then, and nothing can hide in what only one of them skips.

In Cypher two values never stand side by side, so a word that is no keyword of the list neither
follows a value nor is followed by one. ``LOAD CSV``, ``SHOW USERS`` and ``SET n.x`` are such pairs.
That keeps out clauses that nobody has thought of.

Engines look at the clock and at memory between rows only, but one expression can loop for hours, or
double a text until memory is gone. Such queries are refused where their text shows it. Loops over
lists from the graph are not seen.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import prod

from graphmem.errors import QueryError, ReadOnlyError, has_surrogate, shown

LONGEST = 100_000  # characters of a text
DEEPEST = 100  # brackets within brackets

MOST_GROWTH = 1_000
"""How many times its size a value may become from one WITH to the next, over all of them."""

_PATTERN = re.compile(r"(?:\(\?[a-z]+\))?[^(){}]*")


_STAGES = {"WITH", "RETURN", "UNWIND"}
_CLAUSES = {"MATCH", "WHERE", "ORDER", "SKIP", "LIMIT", "CALL", "OPTIONAL", "UNION"} | _STAGES
STARTS = {"MATCH", "OPTIONAL", "WITH", "UNWIND", "RETURN", "CALL"}  # what a query may begin with
KEYWORDS = STARTS | {
    *("WHERE", "ORDER", "BY", "SKIP", "LIMIT", "UNION", "DISTINCT", "AS", "YIELD"),
    *("AND", "OR", "XOR", "NOT", "IN", "STARTS", "ENDS", "CONTAINS", "IS"),
    *("CASE", "WHEN", "THEN", "ELSE", "END", "ASC", "ASCENDING", "DESC", "DESCENDING"),
    *("TRUE", "FALSE", "NULL"),
}
"""Words that stand for no name where a value may stand."""
_WRITING = {
    *("CREATE", "MERGE", "SET", "DELETE", "DETACH", "NODETACH", "REMOVE", "INSERT", "FOREACH"),
    *("DROP", "ALTER", "GRANT", "DENY", "REVOKE", "TRANSACTIONS"),
}
_REFUSED = {*_WRITING, "LOAD", "PROFILE", "EXPLAIN"}


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


FUNCTIONS = _names(
    """
    abs acos asin atan atan2 ceil cos cot degrees e exp floor haversin isnan log log10 pi radians
    rand round sign sin sqrt tan
    avg collect count max min percentilecont percentiledisc stdev stdevp sum
    all any none single exists isempty coalesce nullif head last tail reverse range reduce size
    length keys labels nodes relationships properties type id elementid startnode endnode valuetype
    shortestpath allshortestpaths
    char_length character_length left right ltrim rtrim btrim trim lower upper tolower toupper
    normalize replace split substring randomuuid
    toboolean tobooleanornull tobooleanlist tofloat tofloatornull tofloatlist tointeger
    tointegerornull tointegerlist tostring tostringornull tostringlist
    timestamp date datetime localdatetime time localtime duration date.truncate datetime.truncate
    localdatetime.truncate time.truncate localtime.truncate datetime.fromepoch
    datetime.fromepochmillis duration.between duration.inmonths duration.indays duration.inseconds
    point point.distance vector.similarity.cosine vector.similarity.euclidean
    """
)
"""In small letters: they compute with what they are given, or read the node that they are given."""

PROCEDURES = _names(
    """
    db.labels db.relationshiptypes db.propertykeys db.schema.visualization
    db.schema.nodetypeproperties db.schema.reltypeproperties
    db.index.fulltext.querynodes db.index.fulltext.queryrelationships
    db.index.vector.querynodes db.index.vector.queryrelationships
    """
)
"""In small letters, besides those of graphmem that only read."""

_TOKEN = re.compile(
    r"""
      (?P<blank>  \s+ | //[^\n\r]* | /\*.*?\*/ )
    | (?P<string> '(?:[^'\\]|\\.)*' | "(?:[^"\\]|\\.)*" )
    | (?P<quoted> `(?:[^`\\]|``)+` )
    | (?P<param>  \$[A-Za-z0-9_]+ )
    | (?P<mark>   \.\. )
    | (?P<number> 0x[0-9A-Fa-f]+ | 0o[0-7]+
                | (?: [0-9]+\.[0-9]+ | \.[0-9]+ | [0-9]+ ) (?: [eE][-+]?[0-9]+ )? )
    | (?P<word>   [A-Za-z_][A-Za-z0-9_]* )
    | (?P<sign>   <= | >= | <> | =~ | \|\| | /(?!\*) | [-+*%^=<>()\[\]{},.:;|!&] )
    """,
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Token:
    """A word, name, value or sign, and where it stands."""

    kind: str
    """``word``, ``quoted`` (a name in backticks), ``string``, ``param``, ``number`` or ``sign``."""
    text: str
    at: int
    depth: int = 0
    """How many brackets are open behind it."""

    @property
    def name(self) -> str:
        """The name that it is, without backticks, in small letters."""
        bare = self.text[1:-1].replace("``", "`") if self.kind == "quoted" else self.text
        return bare.lower()

    def is_name(self) -> bool:
        """Return whether it is a word or a name in backticks."""
        return self.kind in ("word", "quoted")

    @property
    def keyword(self) -> str:
        """The keyword that it can be, in capital letters, else nothing."""
        word = self.text.upper() if self.kind == "word" else ""
        return word if word in KEYWORDS else ""


_END = Token("end", "", -1)


def only_reads(text: str, procedures: Callable[[], frozenset[str]] = frozenset) -> str:
    """Return the text to run, where it does nothing but read the graph.

    ``procedures`` gives further procedures that may be called, in small letters.

    Raises:
        ReadOnlyError: it writes.
        QueryError: it is more than a query of the graph, too long, or not Cypher.
    """
    if len(text) > LONGEST:
        raise QueryError(
            f"the query has {len(text):,} characters, and at most {LONGEST:,} are allowed; "
            "give long values as parameters"
        )
    if has_surrogate(text):
        raise QueryError("the query holds half a character (a surrogate), which no engine reads")
    tokens = list(tokenize(text))
    while tokens and tokens[-1].text == ";":
        tokens.pop()
    if tokens and tokens[0].text.upper() not in STARTS:
        raise _unexpected(_END, tokens[0])
    for at, token in enumerate(tokens):
        if token.depth > DEEPEST:
            raise QueryError(f"over {DEEPEST} brackets within brackets; simplify the query")
        _check(tokens, at, procedures)
    if tokens and tokens[-1].depth:
        raise QueryError("a bracket of the query is not closed")
    return _spaced(text, tokens)


def tokenize(text: str) -> Iterator[Token]:
    """Yield the tokens of a text, without comments and white space."""
    at = depth = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            what = "the comment" if text.startswith("/*", at) else shown(text[at])
            raise QueryError(
                f"{what} {_place(text, at)} is not allowed there, or is not closed; a name with "
                "such letters stands between backticks"
            )
        if match.lastgroup == "string" and re.search(r"(?<!\\)(\\\\)*\\[uU]", match[0]):
            raise QueryError(
                f"the string {_place(text, at)} has a \\u, which can stand for a quote; give the "
                "character itself"
            )
        if match.lastgroup != "blank":
            kind = "sign" if match.lastgroup == "mark" else str(match.lastgroup)
            depth += (match[0] in "([{") - (match[0] in ")]}")
            yield Token(kind, match[0], at, depth)
        at = match.end()


def _place(text: str, at: int) -> str:
    line = text.count("\n", 0, at)
    return f"(line {line + 1}, column {at - (text.rfind(chr(10), 0, at) + 1) + 1})"


def _spaced(text: str, tokens: list[Token]) -> str:
    """Return the tokens in their places, so that positions in errors of the engine stay true."""
    parts, end = [], 0
    for token in tokens:
        parts += [re.sub(r"[^\n]", " ", text[end : token.at]), token.text]
        end = token.at + len(token.text)
    return "".join(parts)


def _check(tokens: list[Token], at: int, procedures: Callable[[], frozenset[str]]) -> None:
    token, before = tokens[at], tokens[at - 1] if at else _END
    after = tokens[at + 1] if at + 1 < len(tokens) else _END
    word = token.text.upper() if token.kind == "word" else ""
    second = tokens[at - 2] if at > 1 else _END
    aliased = before.keyword == "AS" and _ends_value(second) and second.text != "."
    named = before.text in (".", ":", "|") or after.text == ":" or aliased
    if token.text == ";":
        raise QueryError("only one statement at a time is allowed; remove the ; in the query")
    if word in _REFUSED and not named:
        raise _unexpected(before, token)
    value_before = _ends_value(before) or (before.keyword and second.text == ".")
    if value_before and token.kind != "sign" and not token.keyword:
        raise _unexpected(before, token)
    if token.text == "." and before.kind == "number":
        raise _unexpected(before, token)
    if token.keyword == "CALL" and not named and after.text not in ("{", "("):
        name, _ = _chain(tokens, at + 1)
        if name not in PROCEDURES and name not in procedures():
            raise QueryError(
                f"the procedure {shown(name)} is not allowed in a query; allowed are those of "
                "graphmem that read, and some of db. (docs/how-to/query.md)"
            )
    elif token.is_name() and before.text != "." and before.keyword != "CALL":
        name, end = _chain(tokens, at)
        called = end < len(tokens) and tokens[end].text == "("
        if called and name not in FUNCTIONS and not (token.keyword and end == at + 1):
            raise QueryError(
                f"the function {shown(name)} is not allowed in a query; "
                "docs/how-to/query.md lists those that are"
            )


def _ends_value(token: Token) -> bool:
    return token.text in (")", "]", "}") or not (token.kind in ("sign", "end") or token.keyword)


def _chain(tokens: list[Token], at: int) -> tuple[str, int]:
    """Return the dotted name that begins there, and the place behind it."""
    parts = []
    while at < len(tokens) and tokens[at].is_name():
        parts.append(tokens[at].name)
        at += 1
        if not (at + 1 < len(tokens) and tokens[at].text == "." and tokens[at + 1].is_name()):
            break
        at += 1
    return ".".join(parts), at


def _unexpected(before: Token, token: Token) -> QueryError:
    words = before.text.upper(), token.text.upper()
    for word in words:
        if word in _WRITING:
            return ReadOnlyError(f"only reading is allowed here: {word} writes")
    if "LOAD" in words:
        return QueryError("LOAD CSV reads files of this machine and is refused in queries")
    return QueryError(
        f"{shown(token.text, 60)} is not expected after {shown(before.text, 60)} in a query that "
        "only reads the graph; a name that is also a word of Cypher stands between backticks"
    )


def check_stoppable(text: str) -> None:
    """Check a text that :func:`only_reads` let through."""
    tokens = list(tokenize(text))
    for at, token in enumerate(tokens):
        if token.text == "=~":
            _check_pattern(*(*tokens[at + 1 : at + 3], _END, _END)[:2])
        elif token.is_name() and _text(tokens, at + 1) == "(":
            closing = (
                place for place in range(at + 2, len(tokens)) if tokens[place].depth <= token.depth
            )
            end = next(closing, len(tokens))
            rows = _text(tokens, at - 1) == "UNWIND" and _text(tokens, end + 1) == "AS"
            if token.name == "range" and not rows:
                raise QueryError("range() makes rows alone; use UNWIND range(...) AS x")
            if token.name == "reduce":
                _check_reduction(tokens[at + 2 : end])
    if prod(_growths(tokens)) > MOST_GROWTH:
        raise QueryError(
            f"the query can make a value over {MOST_GROWTH:,} times as large, by adding it to "
            "itself again and again; that is refused"
        )


def _text(tokens: Sequence[Token], at: int) -> str:
    return tokens[at].text.upper() if 0 <= at < len(tokens) else ""


def _check_pattern(literal: Token, after: Token) -> None:
    simple = (
        literal.kind == "string"
        and after.text not in ("+", "||")
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
        for place in range(at + 1, len(tokens)):
            depth = tokens[place].depth - tokens[at].depth
            if depth < 0 or (not depth and _begins(tokens, place, _CLAUSES)):
                break
            if tokens[place].text == "," and not depth:
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
