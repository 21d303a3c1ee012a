"""What Cypher of others may do: read the graph, with the clauses, functions and procedures below.

A text is cut into tokens, and each must be allowed where it stands. What the engine gets is not the
text but those tokens, in their places, with blanks for everything else: comments and other kinds of
white space mean the same to both engines then, and nothing can hide in what only one of them skips.

The rule that keeps unknown clauses out needs no list of them: in Cypher two values never stand side
by side, so a word that is no keyword of the list can be a name only, and neither follow a value
nor be followed by one. ``LOAD CSV``, ``SHOW USERS`` and ``SET n.x`` are such pairs.
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
"""What a query, a part of a union and a subquery may begin with."""
_BEFORE_A_VALUE = STARTS | {
    *("WHERE", "ORDER", "BY", "SKIP", "LIMIT", "UNION", "DISTINCT", "AS", "YIELD"),
    *("AND", "OR", "XOR", "NOT", "IN", "STARTS", "ENDS", "CONTAINS", "IS"),
    *("CASE", "WHEN", "THEN", "ELSE"),
}
_AFTER_A_VALUE = {"END", "ASC", "ASCENDING", "DESC", "DESCENDING"}
KEYWORDS = _BEFORE_A_VALUE | _AFTER_A_VALUE | {"TRUE", "FALSE", "NULL"}
"""In other words, what stands for no name where a value may stand."""
_IN_MAPS = {"CASE", "NOT"}
"""Keywords that may stand after a colon, as the beginning of a value; others are labels there."""
_SUBQUERIES = {"EXISTS", "COUNT", "COLLECT"}
_WRITING = {
    *("CREATE", "MERGE", "SET", "DELETE", "DETACH", "NODETACH", "REMOVE", "INSERT", "FOREACH"),
    *("DROP", "ALTER", "GRANT", "DENY", "REVOKE", "TRANSACTIONS"),
}
"""Only for a better message, and for one more lock on the door."""


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
_CLOSES = {"(": ")", "[": "]", "{": "}"}


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
    _Reader(tokens, procedures).read()
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
        if match.lastgroup == "string" and not _stays_a_string(match[0]):
            raise QueryError(
                f"a \\u in the string {_place(text, at)} stands for a quote or for nothing; "
                "write \\' for a quote"
            )
        if match.lastgroup != "blank":
            kind = "sign" if match.lastgroup == "mark" else str(match.lastgroup)
            yield Token(kind, match[0], at)
        at = match.end()


def _stays_a_string(literal: str) -> bool:
    """Return whether it ends where it seems to: a server decodes ``\\u`` before it looks."""
    escapes = re.findall(r"\\([uU][0-9A-Fa-f]{0,4}|.)", literal, re.DOTALL)
    return all(
        len(escape) == 5 and escape[0] == "u" and chr(int(escape[1:], 16)) not in "'\"`\\"
        for escape in escapes
        if escape[0] in "uU"
    )


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


class _Reader:
    """Goes through the tokens once, and knows whether a value has just ended."""

    def __init__(self, tokens: list[Token], procedures: Callable[[], frozenset[str]]) -> None:
        self._tokens = tokens
        self._procedures = procedures
        self._at = 0
        self._open: list[str] = []
        self._after_value = False
        self._starting = True
        """A clause must begin here."""
        self._opening: int | None = None
        """The place of a bracket that is allowed after a name: of a call, or of a subquery."""
        self._subquery: int | None = None
        self._naming = False
        """A new name must come here."""

    def read(self) -> None:
        while self._at < len(self._tokens):
            self._take(self._tokens[self._at])
            self._at += 1
        if self._open:
            raise QueryError(f"a {self._open[-1]} of the query is not closed")

    def _near(self, distance: int) -> Token:
        at = self._at + distance
        return self._tokens[at] if 0 <= at < len(self._tokens) else _END

    def _take(self, token: Token) -> None:
        if self._starting:
            self._start(token)
        elif self._naming and not token.is_name():
            raise self._unexpected(token)
        if token.kind == "sign":
            self._sign(token)
        elif token.is_name():
            self._name(token)
        else:
            self._value(token)

    def _start(self, token: Token) -> None:
        before, word = self._near(-1).text, token.text.upper()
        if before.upper() == "UNION" and word in ("ALL", "DISTINCT"):
            return
        self._starting = False
        if word not in STARTS and not (word == "(" and before == "{"):
            raise self._unexpected(token)

    def _value(self, token: Token) -> None:
        if self._after_value and self._near(-1).text != "*":
            raise self._unexpected(token)
        self._after_value = True

    def _name(self, token: Token) -> None:
        before, after = self._near(-1), self._near(1)
        word = token.text.upper() if token.kind == "word" else ""
        if before.text == "." or self._naming:
            self._after_value, self._naming = True, False
            return
        if self._starting and word in ("ALL", "DISTINCT"):  # of UNION
            return
        named = before.text == ":" and not (
            word in _IN_MAPS and (after.kind != "sign" or after.text in "([{")
        )
        one_of = before.text == "|" and word in _WRITING
        if named or one_of or (after.text == ":" and not self._after_value):
            self._operand(token)
        elif word == "CALL":
            self._call()
        elif word in _SUBQUERIES and after.text == "{":
            self._operand(token)
            self._opening = self._subquery = self._at + 1
        elif word in _BEFORE_A_VALUE:
            self._after_value = False
            self._starting = word == "UNION"
            self._naming = word == "AS"
        elif word in _AFTER_A_VALUE:
            self._after_value = True
        elif word in _WRITING:
            raise self._unexpected(token)
        else:
            self._operand(token)

    def _operand(self, token: Token) -> None:
        """Take a name that stands for a value, or begins a function call."""
        if self._after_value:
            raise self._unexpected(token)
        self._after_value = True
        name, length = self._chain(0)
        if self._near(length).text == "(":
            if name not in FUNCTIONS:
                if name.upper() in _WRITING:
                    raise self._unexpected(token)
                raise QueryError(
                    f"the function {shown(name)} is not allowed in a query; "
                    "docs/how-to/query.md lists those that are"
                )
            self._opening = self._at + length

    def _chain(self, distance: int) -> tuple[str, int]:
        """Return the dotted name that begins there, and how many tokens it has."""
        parts, length = [self._near(distance).name], 1
        while (
            self._near(distance + length).text == "."
            and self._near(distance + length + 1).is_name()
        ):
            parts.append(self._near(distance + length + 1).name)
            length += 2
        return ".".join(parts), length

    def _call(self) -> None:
        """Take what follows CALL: a subquery, with or without a scope, or a procedure's name."""
        length = 1
        if self._near(1).text == "(":
            while self._near(length).text != ")":
                length += 1
                if not (self._near(length).is_name() or self._near(length).text in (",", "*", ")")):
                    raise self._unexpected(self._near(length))
            length += 1
        if self._near(length).text == "{":
            self._at += length - 1
            self._opening = self._subquery = self._at + 1
            return
        if length > 1 or not self._near(1).is_name():
            raise self._unexpected(self._near(length))
        name, length = self._chain(1)
        if name not in PROCEDURES and name not in self._procedures():
            raise QueryError(
                f"the procedure {shown(name)} is not allowed in a query; allowed are those of "
                "graphmem that read, and some of db. (docs/how-to/query.md)"
            )
        self._at += length
        self._after_value = True
        self._opening = self._at + 1

    def _sign(self, token: Token) -> None:
        text = token.text
        if text in _CLOSES:
            if text == "(" and self._after_value and self._at != self._opening:
                raise self._unexpected(token)
            self._open.append(text)
            if len(self._open) > DEEPEST:
                raise QueryError(f"over {DEEPEST} brackets within brackets; simplify the query")
            self._after_value = False
            self._starting = self._at == self._subquery
        elif text in ")]}":
            if not self._open or _CLOSES[self._open.pop()] != text:
                raise self._unexpected(token)
            self._after_value = True
        elif text == ";":
            raise QueryError("only one statement at a time is allowed; remove the ; in the query")
        else:
            self._after_value = text == "*" and not self._after_value

    def _unexpected(self, token: Token) -> QueryError:
        word = token.text.upper()
        for name in (self._near(-1).text.upper(), word):
            if name in _WRITING:
                return ReadOnlyError(f"only reading is allowed here: {name} writes")
        if "LOAD" in (word, self._near(-1).text.upper()):
            return QueryError("LOAD CSV reads files of this machine and is refused in queries")
        what = shown(token.text, 60) if token.text else "the end"
        return QueryError(
            f"{what} is not expected after {shown(self._near(-1).text, 60)} in a query that only "
            "reads the graph; a name that is also a word of Cypher stands between backticks"
        )
