"""The procedures: named Cypher statements in the folder ``cypher``, checked before they run.

A file contains statements that end in a semicolon at the end of a line, each after a header of
comments: ``name``, ``doc``, ``param`` and ``returns``, and where that is needed ``mode`` (write or
schema), ``engine`` (the only one that can run it), ``install`` (its name for Cypher users),
``each`` (one procedure for each of some labels) and ``option`` (of lines that are marked
``//? option`` or ``//? !option``). ``formulas.cypher`` contains what statements share: parameters,
formulas, which are expressions, and columns, which are lists of them. CONTRIBUTING.md has examples.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Literal

from graphmem.errors import NotFoundError, ProcedureError, ReadOnlyError, shown
from graphmem.store.allowed import check_stoppable, only_reads

Mode = Literal["read", "write", "schema"]

TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "float": (float, int),
    "boolean": (bool,),
    "list": (list, tuple),
    "map": (dict,),
}
Headers = dict[str, list[str]]
_HEADER = re.compile(
    r"//\s*(name|mode|engine|install|each|doc|option|param|returns|shared|formula|columns):\s*(.*)"
)
_NAME = re.compile(r"[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)+")
_WORD = re.compile(r"[a-z]\w*(\.\w+)*")
_PARAM = re.compile(r"(\w+)\s+(\w+)(?:\s*=\s*(.+))?")
_NEXT_PARAM = re.compile(r",\s*(?=[a-z]\w*(?:\s+\w+)?\s*(?:=|,|$))")
_TOKEN = re.compile(r"'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\"|`[^`]*`|//[^\n]*|/\*.*?\*/", re.DOTALL)
_COMMENT = re.compile(r"//(?!\?)")
_MARK = re.compile(r"\s*//\?((?:\s+!?[a-z_]+)*)\s*$")
_USED = re.compile(r"\$(\w+)")
_TOKEN_OR_USED = re.compile(rf"{_TOKEN.pattern}|\$(\w+)", re.DOTALL)
_RETURN = re.compile(r"\bRETURN\b", re.IGNORECASE)
_TAIL = re.compile(r"(?<![$.])\b(?:ORDER\s+BY|SKIP|LIMIT|UNION)\b.*", re.IGNORECASE | re.DOTALL)
_ALIAS = re.compile(r"(?:.*\bAS\s+)?`?(\w+)`?", re.IGNORECASE | re.DOTALL)
_ATOM = re.compile(r"[$\w.]+")

INSTALLED = "custom.graphmem."  # the prefix of names of procedures that a server has installed


@dataclass(frozen=True, slots=True)
class Parameter:
    """A declared parameter; ``default`` is ``...`` if the caller must give it."""

    name: str
    type: str
    default: Any = ...


@dataclass(frozen=True)
class Query:
    """A Cypher statement with its header."""

    name: str
    mode: Mode
    text: str
    doc: str = ""
    params: Mapping[str, Parameter] = field(default_factory=dict)
    returns: Mapping[str, str] = field(default_factory=dict)
    engine: str | None = None
    checked: bool = True
    install: str | None = None
    """Its name for Cypher users of a server, after ``custom.graphmem.``"""

    options: Mapping[str, str] = field(default_factory=dict)
    """The options of optional lines, and what each is for; such a text runs as :meth:`wanting`."""
    _others: Set[str] = frozenset()
    """Parameters of the whole that a variant lacks."""
    _variants: dict[frozenset[str], Query] = field(default_factory=dict, compare=False, repr=False)

    def wanting(self, *options: str) -> Query:
        """Return the statement with the optional lines for these options, and no others."""
        wanted = frozenset(options)
        variant = self._variants.get(wanted)
        if variant is None:
            if unknown := sorted(wanted - self.options.keys()):
                raise ProcedureError(f"{self.name}: unknown option {', '.join(unknown)}")
            text = _chosen(self.text, wanted)
            used = set(_USED.findall(_TOKEN.sub("''", text)))
            params = {name: param for name, param in self.params.items() if name in used}
            variant = replace(
                self,
                text=text,
                params=params,
                options={},
                _others=self.params.keys() - used,
                _variants={},
            )
            self._variants[wanted] = variant
        return variant

    @cached_property
    def packed(self) -> str:
        """The text with all parameters in one map, ``given``.

        A server plans a statement anew for each combination of types of its parameters (an empty
        list is of another type than others, null than a text) and of orders of magnitude of their
        lengths. Of what is in a map it knows neither.
        """
        return _TOKEN_OR_USED.sub(lambda m: f"$given.{m[1]}" if m[1] else m[0], self.text)

    def bind(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the parameters to send: the given values and the defaults."""
        if not self.checked:
            return dict(given)
        if self.options:
            raise ProcedureError(f"{self.name}: say which options ({', '.join(self.options)})")
        bound = dict(given)
        if self._others:
            bound = {name: value for name, value in given.items() if name not in self._others}
        for name, param in self.params.items():
            if name not in bound:
                if param.default is ...:
                    raise ProcedureError(
                        f"{self.name}: parameter {name} ({param.type}) is missing; in the shell "
                        f"--param {name}=VALUE gives it"
                    )
                bound[name] = param.default
            value = bound[name]
            if not (value is None or isinstance(value, TYPES[param.type])):
                raise ProcedureError(
                    f"{self.name}: parameter {name} must be {param.type} (got {shown(value)})"
                )
        if len(bound) != len(self.params):
            unknown = sorted(bound.keys() - self.params.keys())
            raise ProcedureError(f"{self.name}: unknown parameter {', '.join(unknown)}")
        return bound


def adhoc(text: str, mode: Mode = "read") -> Query:
    """Return a query with a text of our own, without declarations or checks."""
    return Query("query", mode, text.strip().rstrip(";"), checked=False)


def readable(text: str) -> Query:
    """Return the procedure of that name, or a query with a user's own text."""
    if text in catalog() or _WORD.fullmatch(text):
        query = catalog()[text]
        if query.mode != "read":
            raise ReadOnlyError(
                f"{query.name} writes (mode {query.mode}); only reading is allowed here"
            )
        return query
    allowed = only_reads(text, _installed)
    if not allowed.strip():
        raise ProcedureError("the query is empty; for instance: MATCH (s:Strategy) RETURN s.text")
    check_stoppable(allowed)
    return Query("query", "read", allowed, checked=False)


@cache
def _installed() -> frozenset[str]:
    return frozenset(
        f"{INSTALLED}{query.install}".lower()
        for query in catalog()
        if query.install and query.mode == "read"
    )


def schema_of(engine: str) -> list[Query]:
    """Return the schema statements of an engine (``kglite``, ``neo4j``)."""
    return [
        query
        for query in catalog().subject("schema")
        if query.mode == "schema" and query.engine in (None, engine)
    ]


class Catalog:
    """All procedures of a folder of .cypher files, by name."""

    def __init__(self, folder: Path) -> None:
        """Read the files; each procedure is checked when it is asked for."""
        self.folder = folder
        self._statements: dict[str, tuple[Headers, str]] = {}
        self._queries: dict[str, Query] = {}
        shared = folder / "formulas.cypher"
        files = sorted(set(folder.rglob("*.cypher")) - {shared, *folder.glob("browser/*")})
        if not files:
            raise ProcedureError(f"no .cypher files in {folder}; reinstall graphmem")
        self._shared = _Shared(shared)
        for file in files:
            for headers, text in _statements(file):
                name = headers.get("name", [""])[0]
                if not _NAME.fullmatch(name):
                    raise ProcedureError(
                        f"{file.name}: a statement lacks '// name: subject.verb': {text:.60}"
                    )
                if name in self._statements:
                    raise ProcedureError(f"{file.name}: {name} is defined twice")
                self._statements[name] = headers, text

    def __getitem__(self, name: str) -> Query:
        query = self._queries.get(name)
        if query is None:
            if name not in self._statements:
                raise NotFoundError(f"no procedure {name!r}; `graphmem procedures list` shows them")
            query = self._queries[name] = _query(name, *self._statements[name], self._shared)
        return query

    def __contains__(self, name: object) -> bool:
        return name in self._statements

    def __iter__(self) -> Iterator[Query]:
        return map(self.__getitem__, self._statements)

    def subject(self, prefix: str) -> list[Query]:
        """Return the procedures whose names begin with ``prefix`` and a dot."""
        return [self[name] for name in self._statements if name.startswith(prefix + ".")]


@cache
def catalog() -> Catalog:
    """Return graphmem's own procedures (from the wheel, or from the source tree)."""
    package = Path(__file__).parent.parent
    inside = package / "cypher"
    return Catalog(inside if inside.is_dir() else package.parent / "cypher")


def procedure(name: str) -> Query:
    """Return one of graphmem's own procedures."""
    return catalog()[name]


class _Shared:
    """Parameters, formulas and columns that the statements of all files share."""

    def __init__(self, file: Path) -> None:
        self.parameters: dict[str, Parameter] = {}
        self.columns: dict[str, str] = {}
        self._formulas: dict[str, tuple[list[str], str]] = {}
        for headers, text in _blocks(file):
            self.parameters |= _parameters(file.name, headers.get("shared", []), {})
            kind = "columns" if "columns" in headers else "formula"
            call = headers.get(kind, [""])[0]
            match = re.fullmatch(r"(\w+)\(([\w, ]*)\)", call)
            if not match:
                raise ProcedureError(f"{file.name}: bad {kind} header {call!r}")
            body = f"({text})"
            if kind == "columns":
                body, self.columns[match[1]] = text, ", ".join(headers.get("returns", []))
            self._formulas[match[1]] = ([name.strip() for name in match[2].split(",")], body)
        self._call = re.compile(rf"\b({'|'.join(self._formulas)})\(")

    def expand(self, text: str, where: str) -> str:
        while call := self._call.search(text):
            names, body = self._formulas[call[1]]
            given, end = _arguments(text, call.end())
            if len(given) != len(names):
                raise ProcedureError(f"{where}: {call[1]} takes {', '.join(names)}")
            atoms = [part if _ATOM.fullmatch(part) else f"({part})" for part in given]
            values = dict(zip(names, atoms, strict=True))
            inner = re.sub(r"'[^']*'|\b\w+\b", lambda word: values.get(word[0], word[0]), body)  # noqa: B023
            text = f"{text[: call.start()]}{inner}{text[end:]}"
        return text


def _arguments(text: str, start: int) -> tuple[list[str], int]:
    """Return the arguments of a call whose parenthesis opens before ``start``, and its end."""
    parts: list[str] = []
    depth, begin = 0, start
    for at in range(start, len(text)):
        char = text[at]
        if char in "([{":
            depth += 1
        elif char in ")]}" and depth:
            depth -= 1
        elif char == ")":
            return [*parts, text[begin:at].strip()], at + 1
        elif char == "," and not depth:
            parts.append(text[begin:at].strip())
            begin = at + 1
    raise ProcedureError(f"unclosed parenthesis in {text[start : start + 40]!r}")


def _blocks(file: Path) -> Iterator[tuple[dict[str, list[str]], str]]:
    headers: dict[str, list[str]] = {}
    body: list[str] = []
    for line in file.read_text(encoding="utf-8").splitlines():
        stripped = line.strip()
        if not body and (match := _HEADER.fullmatch(stripped)):
            headers.setdefault(match[1], []).append(match[2].strip())
        elif not stripped or (not body and _COMMENT.match(stripped)):
            continue
        else:
            body.append(line.rstrip())
            if stripped.endswith(";"):
                yield headers, "\n".join(body).strip().removesuffix(";")
                headers, body = {}, []
    if body or headers:
        raise ProcedureError(f"{file.name}: the last statement has no semicolon, or no text")


def _statements(file: Path) -> Iterator[tuple[Headers, str]]:
    """Yield headers and statement, once for each item of ``// each:``, filled in."""
    for headers, text in _blocks(file):
        names, _, rows = " ".join(headers.pop("each", [])).partition("=")
        for row in rows.split(","):
            if len(row.split()) != len(names.split()):
                raise ProcedureError(f"{file.name}: bad '// each:' at {row.strip()!r}")
            values = dict(zip(names.split(), row.split(), strict=True))
            marks = re.compile(rf"\{{({'|'.join(values) or '^'})\}}")

            def filled(line: str) -> str:
                return marks.sub(lambda mark: values[mark[1]], line)  # noqa: B023

            yield {name: [*map(filled, lines)] for name, lines in headers.items()}, filled(text)


def _query(name: str, headers: Headers, text: str, shared: _Shared) -> Query:
    mode = headers.get("mode", ["read"])[0]
    if mode not in ("read", "write", "schema"):
        raise ProcedureError(f"{name}: '// mode:' must be read, write or schema, not {mode!r}")
    if not headers.get("doc"):
        raise ProcedureError(f"{name}: '// doc:' is missing")
    own = _parameters(name, headers.get("param", []), shared.parameters)
    returned = ", ".join(headers.get("returns", [])).split(", ")
    returns = _columns(name, ", ".join(shared.columns.get(part, part) for part in returned))
    text = shared.expand(text, name)
    used = set(_USED.findall(_TOKEN.sub("''", text)))
    for missing in sorted(used - own.keys() - shared.parameters.keys()):
        raise ProcedureError(f"{name}: ${missing} is used but not declared")
    for unused in sorted(own.keys() - used):
        raise ProcedureError(f"{name}: parameter {unused} is declared but not used")
    options = dict(line.split(maxsplit=1) for line in headers.get("option", []))
    marks = {mark.removeprefix("!") for _, marks in _marked(text) for mark in marks}
    for wrong in sorted(marks ^ options.keys()):
        raise ProcedureError(f"{name}: option {wrong} is not declared, or no line is marked so")
    for variant in (_chosen(text, set()), _chosen(text, marks)):
        if (actual := _returned(_TOKEN.sub("''", variant))) != list(returns):
            raise ProcedureError(f"{name}: returns {actual}, the header says {list(returns)}")
    # Required parameters come first, as in a signature.
    others = [shared.parameters[key] for key in shared.parameters if key in used - own.keys()]
    params = [param for param in others if param.default is ...] + [*own.values()]
    params += [param for param in others if param.default is not ...]
    return Query(
        name,
        mode,  # type: ignore[arg-type]
        text,
        " ".join(headers["doc"]),
        {param.name: param for param in params},
        returns,
        headers.get("engine", [None])[0],
        install=headers.get("install", [None])[0],
        options=options,
    )


def _marked(text: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the lines of a statement without their marks, and the marks that hold for each."""
    part: list[str] = []
    for line in text.splitlines():
        match = _MARK.search(line)
        if match is None:
            yield line, part
        elif match.start():
            yield line[: match.start()], part + match[1].split()
        else:
            part = match[1].split()


def _chosen(text: str, wanted: Set[str]) -> str:
    """Return a statement with those of its optional lines that are wanted, not indented."""
    return "\n".join(
        line.strip()
        for line, marks in _marked(text)
        if all((mark[0] != "!") == (mark.removeprefix("!") in wanted) for mark in marks)
    )


def _parameters(
    name: str, lines: list[str], shared: Mapping[str, Parameter]
) -> dict[str, Parameter]:
    parameters = {}
    for part in (part for line in lines for part in _NEXT_PARAM.split(line)):
        match = _PARAM.fullmatch(part)
        if part in shared:  # named only to fix its position
            parameters[part] = shared[part]
        elif match and match[2] in TYPES:
            default = ... if match[3] is None else json.loads(match[3])
            parameters[match[1]] = Parameter(match[1], match[2], default)
        else:
            raise ProcedureError(f"{name}: bad '// param: {part}' (name, then {', '.join(TYPES)})")
    return parameters


def _columns(name: str, line: str) -> dict[str, str]:
    columns = dict(part.split(maxsplit=1) for part in line.split(",") if part.strip())
    for column, kind in columns.items():
        if kind.strip() not in TYPES:
            raise ProcedureError(f"{name}: bad '// returns: {column} {kind}'")
    return columns


def _returned(bare: str) -> list[str]:
    *_, ending = _RETURN.split(bare)
    if ending == bare:
        return []
    parts, _ = _arguments(_TAIL.sub("", ending) + ")", 0)
    return [match[1] for part in parts if (match := _ALIAS.fullmatch(part.strip()))]
