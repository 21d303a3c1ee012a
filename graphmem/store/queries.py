"""The procedures: named Cypher statements of the folder ``cypher``, checked when loaded.

A file holds statements that end in a semicolon at the end of a line, each after a header::

    // name: learning.claim
    // mode: read | write | schema
    // engine: neo4j                     (only where one engine alone needs it, or can run it)
    // install: claim                    (only where it is of use to Cypher users: its name there)
    // doc: One sentence.
    // param: ns string                  (type, and after "=" a default where it may be left out)
    // returns: id string, created boolean

Formulas (``// formula: name(a, b)``) are expressions that statements may call; the call is
replaced by the expression when the file is loaded.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal

from graphmem.errors import NotFoundError, ProcedureError, ReadOnlyError

Mode = Literal["read", "write", "schema"]

TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "float": (float, int),
    "boolean": (bool,),
    "list": (list, tuple),
    "map": (dict,),
}
_HEADER = re.compile(r"//\s*(name|mode|engine|install|doc|param|returns|formula):\s*(.*)")
_NAME = re.compile(r"[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)+")
_INSTALLED = re.compile(r"[a-z][a-z0-9_]+")
_PARAM = re.compile(r"(\w+)\s+(\w+)(?:\s*=\s*(.+))?")
_TOKEN = re.compile(r"'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\"|`[^`]*`|//[^\n]*|/\*.*?\*/", re.DOTALL)
_USED = re.compile(r"\$(\w+)")
_RETURN = re.compile(r"\bRETURN\b", re.IGNORECASE)
_TAIL = re.compile(r"(?<![$.])\b(?:ORDER\s+BY|SKIP|LIMIT|UNION)\b.*", re.IGNORECASE | re.DOTALL)
_ALIAS = re.compile(r"(?:.*\bAS\s+)?`?(\w+)`?", re.IGNORECASE | re.DOTALL)
_ATOM = re.compile(r"[$\w.]+")
_LOAD_CSV = re.compile(r"\bLOAD\s+CSV\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Parameter:
    """A declared parameter; ``default`` is ``...`` where the caller must give it."""

    name: str
    type: str
    default: Any = ...


@dataclass(frozen=True, slots=True)
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
    """Name under which Cypher users of a server can call it, after ``custom.graphmem.``"""

    def bind(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the parameters to send: the given ones and the defaults.

        Raises:
            ProcedureError: one is missing, unknown, or of another type.
        """
        if not self.checked:
            return dict(given)
        bound = dict(given)
        for name, param in self.params.items():
            if name not in bound:
                if param.default is ...:
                    raise ProcedureError(f"{self.name}: parameter {name} ({param.type}) is missing")
                bound[name] = param.default
            value = bound[name]
            if value is None or isinstance(value, TYPES[param.type]):
                continue
            raise ProcedureError(
                f"{self.name}: parameter {name} must be {param.type}, got {type(value).__name__}"
            )
        if len(bound) != len(self.params):
            unknown = sorted(bound.keys() - self.params.keys())
            raise ProcedureError(f"{self.name}: unknown parameter {', '.join(unknown)}")
        return bound


def adhoc(text: str, mode: Mode = "read") -> Query:
    """Return a query of a person's own text: nothing is declared, nothing checked.

    Raises:
        ProcedureError: the text is empty, or reads files (``LOAD CSV``).
    """
    bare = _TOKEN.sub("''", text).strip().rstrip(";").strip()
    if not bare:
        raise ProcedureError("the query is empty; for instance: MATCH (s:Strategy) RETURN s.text")
    if _LOAD_CSV.search(bare):
        raise ProcedureError("LOAD CSV reads files of this machine and is refused in queries")
    return Query("query", mode, text.strip().rstrip(";"), checked=False)


def schema_of(engine: str) -> list[Query]:
    """Return the schema statements of an engine (``kglite``, ``neo4j``)."""
    return [
        query
        for query in catalog().subject("schema")
        if query.mode == "schema" and query.engine in (None, engine)
    ]


def refuse_writing(query: Query) -> ReadOnlyError:
    """Return the error for a procedure that writes where only reading is allowed."""
    return ReadOnlyError(f"{query.name} writes (mode {query.mode}); only reading is allowed here")


class Catalog:
    """All procedures of a folder of .cypher files, by name."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._queries: dict[str, Query] = {}
        files = sorted(set(folder.rglob("*.cypher")) - set(folder.glob("browser/*")))
        if not files:
            raise ProcedureError(f"no .cypher files in {folder}; reinstall graphmem")
        formulas = _Formulas(folder / "formulas.cypher")
        taken: dict[str | None, str] = {}
        for file in files:
            if file.name == "formulas.cypher":
                continue
            for query in _parse(file, formulas):
                if query.name in self._queries:
                    raise ProcedureError(f"{file.name}: {query.name} is defined twice")
                if query.install in taken:
                    raise ProcedureError(
                        f"{query.name}: install name {query.install} is that of "
                        f"{taken[query.install]}; give another"
                    )
                if query.install is not None:
                    taken[query.install] = query.name
                self._queries[query.name] = query

    def __getitem__(self, name: str) -> Query:
        try:
            return self._queries[name]
        except KeyError:
            raise NotFoundError(
                f"no procedure {name!r}; `graphmem procedures list` shows them"
            ) from None

    def __contains__(self, name: object) -> bool:
        return name in self._queries

    def __iter__(self) -> Iterator[Query]:
        return iter(self._queries.values())

    def subject(self, prefix: str) -> list[Query]:
        """Return the procedures whose names begin with ``prefix`` and a dot."""
        return [query for query in self if query.name.startswith(prefix + ".")]


@cache
def catalog() -> Catalog:
    """Return graphmem's own procedures (from the wheel, or from the source tree)."""
    package = Path(__file__).parent.parent
    inside = package / "cypher"
    return Catalog(inside if inside.is_dir() else package.parent / "cypher")


def procedure(name: str) -> Query:
    """Return one of graphmem's own procedures."""
    return catalog()[name]


class _Formulas:
    """Expressions with parameters, expanded where statements call them."""

    def __init__(self, file: Path) -> None:
        self._formulas: dict[str, tuple[list[str], str]] = {}
        if not file.exists():
            return
        for headers, text in _blocks(file):
            call = headers.get("formula", [""])[0]
            match = re.fullmatch(r"(\w+)\(([\w, ]*)\)", call)
            if not match:
                raise ProcedureError(f"{file.name}: bad formula header {call!r}")
            self._formulas[match[1]] = ([name.strip() for name in match[2].split(",")], text)
        self._call = re.compile(rf"\b({'|'.join(self._formulas)})\(") if self._formulas else None

    def expand(self, text: str, where: str) -> str:
        call = self._call.search(text) if self._formulas and self._call else None
        while call is not None and self._call is not None:
            names, body = self._formulas[call[1]]
            given, end = _arguments(text, call.end())
            if len(given) != len(names):
                raise ProcedureError(f"{where}: {call[1]} takes {', '.join(names)}")
            atoms = [part if _ATOM.fullmatch(part) else f"({part})" for part in given]
            values = dict(zip(names, atoms, strict=True))
            inner = re.sub(r"'[^']*'|\b\w+\b", lambda word: values.get(word[0], word[0]), body)  # noqa: B023
            text = f"{text[: call.start()]}({inner}){text[end:]}"
            call = self._call.search(text)
        return text


def _arguments(text: str, start: int) -> tuple[list[str], int]:
    """Return the arguments of a call whose parenthesis opened before ``start``, and its end."""
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
    """Yield (headers, statement) of a file."""
    headers: dict[str, list[str]] = {}
    body: list[str] = []
    for line in file.read_text(encoding="utf-8").splitlines():
        stripped = line.strip()
        if not body and (match := _HEADER.fullmatch(stripped)):
            headers.setdefault(match[1], []).append(match[2].strip())
        elif not stripped or (not body and stripped.startswith("//")):
            continue
        else:
            body.append(line.rstrip())
            if stripped.endswith(";"):
                yield headers, "\n".join(body).strip().removesuffix(";")
                headers, body = {}, []
    if body or headers:
        raise ProcedureError(f"{file.name}: the last statement has no semicolon, or no text")


def _parse(file: Path, formulas: _Formulas) -> Iterator[Query]:
    for headers, text in _blocks(file):
        names = headers.get("name", [])
        if len(names) != 1 or not _NAME.fullmatch(names[0]):
            raise ProcedureError(
                f"{file.name}: a statement lacks '// name: subject.verb': {text:.60}"
            )
        name = names[0]
        mode = (headers.get("mode") or [""])[0]
        if mode not in ("read", "write", "schema"):
            raise ProcedureError(f"{name}: '// mode:' must be read, write or schema, not {mode!r}")
        engine = next(iter(headers.get("engine", [])), None)
        install = _install(name, mode, headers.get("install", []))
        if not headers.get("doc"):
            raise ProcedureError(f"{name}: '// doc:' is missing")
        params = dict(_parameters(name, headers.get("param", [])))
        returns = _columns(name, ", ".join(headers.get("returns", [])))
        expanded = formulas.expand(text, name)
        bare = _TOKEN.sub("''", expanded)
        used = set(_USED.findall(bare))
        for missing in sorted(used - params.keys()):
            raise ProcedureError(f"{name}: ${missing} is used but not declared")
        for unused in sorted(params.keys() - used):
            raise ProcedureError(f"{name}: parameter {unused} is declared but not used")
        if (found := _returned(bare)) != list(returns):
            raise ProcedureError(f"{name}: returns {found}, the header says {list(returns)}")
        doc = " ".join(headers["doc"])
        yield Query(
            name,
            mode,  # type: ignore[arg-type]
            expanded,
            doc,
            params,
            returns,
            engine,
            install=install,
        )


def _install(name: str, mode: str, lines: list[str]) -> str | None:
    if not lines:
        return None
    if len(lines) > 1 or not _INSTALLED.fullmatch(lines[0]):
        raise ProcedureError(
            f"{name}: bad '// install: {', '.join(lines)}' (one name of two letters or more: "
            "small letters, digits and _)"
        )
    if mode == "schema":
        raise ProcedureError(f"{name}: a schema statement cannot be installed")
    return lines[0]


def _parameters(name: str, lines: list[str]) -> Iterator[tuple[str, Parameter]]:
    for line in lines:
        match = _PARAM.fullmatch(line)
        if not match or match[2] not in TYPES:
            raise ProcedureError(f"{name}: bad '// param: {line}' (name, then {', '.join(TYPES)})")
        default = ... if match[3] is None else json.loads(match[3])
        yield match[1], Parameter(match[1], match[2], default)


def _columns(name: str, line: str) -> dict[str, str]:
    columns = {}
    for part in filter(None, (part.strip() for part in line.split(","))):
        column, _, kind = part.partition(" ")
        if kind.strip() not in TYPES:
            raise ProcedureError(f"{name}: bad '// returns: {part}'")
        columns[column] = kind.strip()
    return columns


def _returned(bare: str) -> list[str]:
    """Return the columns of the last RETURN of a statement without strings."""
    starts = [match.end() for match in _RETURN.finditer(bare)]
    if not starts:
        return []
    tail = _TAIL.sub("", bare[starts[-1] :])
    parts, _ = _arguments(tail + ")", 0)
    return [match[1] for part in parts if (match := _ALIAS.fullmatch(part.strip()))]
