"""What Cypher of others may do: read the graph, with the functions and procedures below.

A text is cut into tokens. What the engine gets is not the text but those tokens, in their places,
with blanks for everything else: comments and other kinds of white space mean the same to both
engines then, and nothing can hide in what only one of them skips.

In Cypher two values never stand side by side, so a word that is no keyword of the list neither
follows a value nor is followed by one. ``LOAD CSV``, ``SHOW USERS`` and ``SET n.x`` are such pairs.
That keeps out clauses that nobody has thought of.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from graphmem.errors import QueryError, ReadOnlyError, has_surrogate, shown

LONGEST = 100_000
"""Characters of a text."""
DEEPEST = 100
"""Brackets within brackets."""

STARTS = {"MATCH", "OPTIONAL", "WITH", "UNWIND", "RETURN", "CALL"}
"""What a query may begin with."""
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
    depth = 0
    for at, token in enumerate(tokens):
        depth += (token.text in "([{") - (token.text in ")]}")
        if depth > DEEPEST:
            raise QueryError(f"over {DEEPEST} brackets within brackets; simplify the query")
        _check(tokens, at, procedures)
    if depth:
        raise QueryError("a bracket of the query is not closed")
    return _spaced(text, tokens)


def tokenize(text: str) -> Iterator[Token]:
    """Yield the tokens of a text, without comments and white space.

    Raises:
        QueryError: something is no token.
    """
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise QueryError(_strange(text, at))
        if match.lastgroup == "string" and re.search(r"(?<!\\)(\\\\)*\\[uU]", match[0]):
            raise QueryError(
                f"the string {_place(text, at)} has a \\u, which can stand for a quote; give the "
                "character itself"
            )
        if match.lastgroup != "blank":
            kind = "sign" if match.lastgroup == "mark" else str(match.lastgroup)
            yield Token(kind, match[0], at)
        at = match.end()


def _strange(text: str, at: int) -> str:
    char, where = text[at], _place(text, at)
    if char in "'\"`":
        return f"the {char} {where} is not closed, or has a backslash between backticks"
    if text.startswith("/*", at):
        return f"the comment {where} is not closed"
    if char == "\\":
        return f"a backslash outside of a string {where}; give the character itself"
    if char.isalpha():
        return f"{shown(char)} {where}: put a name with such letters between backticks"
    return f"{shown(char)} {where} is not allowed in a query"


def _place(text: str, at: int) -> str:
    line = text.count("\n", 0, at)
    return f"(line {line + 1}, column {at - (text.rfind(chr(10), 0, at) + 1) + 1})"


def _spaced(text: str, tokens: list[Token]) -> str:
    """Return the tokens in their places, so that positions in errors of the engine stay true."""
    parts, end = [], 0
    for token in tokens:
        between = text[end : token.at]
        parts += ["".join("\n" if char == "\n" else " " for char in between), token.text]
        end = token.at + len(token.text)
    return "".join(parts)


def _check(tokens: list[Token], at: int, procedures: Callable[[], frozenset[str]]) -> None:
    """Check a token beside its neighbours.

    Raises:
        QueryError: it may not stand there.
    """
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
