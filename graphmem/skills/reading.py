"""Reads skills (SKILL.md) and playbooks: what they say of strategies, by kind of task.

Of a skill after the Agent Skills convention, name and description are the kind of task, and the
items of its lists are strategies: to avoid, if their heading or their first word says so. Without
lists the sentences between headings are. A skill that graphmem wrote has outcomes behind each
strategy, a playbook has lines ``[id] helpful=N harmful=N :: text`` under headings.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from graphmem.errors import NotFoundError, ValidationError, shown
from graphmem.models.fields import MAX_KEY
from graphmem.models.forecasts import Advice, PriorRecord
from graphmem.skills.wording import FILE
from graphmem.text.words import THEN

MOST_BYTES = 4_000_000
"""Most bytes of a file."""
MOST = 10_000
"""Most strategies of a source."""
LONGEST = MAX_KEY + 1_000
"""Characters of a line beyond which it is no strategy, which has at most 10,000."""
_FRONT = re.compile(r"([A-Za-z][\w-]*):(?:[ \t]+(.*))?")
_HEADING = re.compile(r"#{1,6}[ \t]+(.*)")
_ITEM = re.compile(r"( *)(?:[-*+]|\d{1,9}[.)])[ \t]+(.*)")
_NO_PROSE = re.compile(
    r"^ *(```+|~~~+).*?(?:^ *\1[^\n]*|\Z)|^[ \t]*+<!--.*?(?:-->[^\n]*|\Z)|^[ \t]*+\|[^\n]*",
    re.DOTALL | re.MULTILINE,
)
"""Blocks of code, comments and rows of tables."""
_BULLET = re.compile(
    r"\s*(?:[-*]\s+)?\[[^\]]*\]\s*helpful=([0-9]{1,9})\s+harmful=([0-9]{1,9})\s*::\s*(.*)"
)
_PLAYBOOK = re.compile(r"^[ \t]*(?:[-*][ \t]+)?\[[^\]\n]*\][ \t]*helpful=", re.MULTILINE)
_AVOIDING = re.compile(
    r"\b(avoid|don['\u2019]?t|do not|never|not to|pitfalls?|mistakes?|anti-?patterns?)\b",
    re.IGNORECASE,
)
_NOT = re.compile(r"(?:avoid|don['\u2019]?t|do not|never)[ \t:]+", re.IGNORECASE)
_QUOTED = re.compile(r"(`+) ?(.*?) ?\1(?!`)")
_WORKED = re.compile(r"(.*) worked in ([\d,]+) of ([\d,]+) \(.*\).* \[\w+\]")
_ABOUT = re.compile(r"\. They are about: (.{1,1000})\.")
_ORDER = "in this order: "


class _Said(NamedTuple):
    line: int
    text: str
    verdict: Advice
    trials: int = 0
    successes: int = 0


class _File:
    """A file, its lines, and errors that name it and the line."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with path.open("rb") as file:
            held = file.read(MOST_BYTES + 1)
        if len(held) > MOST_BYTES:
            self.refuse(None, f"has over {MOST_BYTES:,} bytes", "split it")
        try:
            text = held.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            line = held.count(b"\n", 0, error.start) + 1
            self.refuse(line, "is not UTF-8", "save it as UTF-8")
        self.lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")

    def refuse(self, line: int | None, problem: str, remedy: str = "") -> NoReturn:
        """Raise the error about a line."""
        where = "" if line is None else f"line {line:,} "
        raise ValidationError("path", str(self.path), f"{where}{problem}", remedy)


def read_source(path: Path, source: str | None = None) -> tuple[list[PriorRecord], int]:
    """Return what a file, or all skills in a folder, say of strategies; and how many files.

    Raises:
        NotFoundError: there is nothing of that name, or no skill in the folder.
        OSError: a file cannot be read.
        ValidationError: a file is no skill or playbook, or is wrong; it names file and line.
    """
    if not path.exists():
        raise NotFoundError(f"there is no file or folder {shown(str(path))}")
    files = sorted(path.rglob(FILE)) if path.is_dir() else [path]
    if not files:
        raise NotFoundError(f"there is no {FILE} in the folder {shown(str(path))}")
    name = path.resolve()
    source = source or (name.parent.name if name.name == FILE else name.stem) or "skills"
    skills: dict[tuple[str, str | None], dict[str, PriorRecord]] = {}
    for one in files:
        file = _File(one)
        for kind, about, said in _read(file, source):
            told = skills.setdefault((kind, about), {})
            _add(file, told, said, {"source": source, "kind": kind, "about": about})
            if sum(map(len, skills.values())) > MOST:
                file.refuse(said.line, f"is beyond {MOST:,} strategies", "keep the best ones")
    if not skills:
        remedy = "`graphmem upkeep erase --source NAME` removes what a source said before"
        raise ValidationError("path", str(path), "says nothing of any strategy", remedy)
    return [one for told in skills.values() for one in told.values()], len(files)


def _add(file: _File, told: dict[str, PriorRecord], said: _Said, of: Mapping[str, Any]) -> None:
    """Add what a line says; the counts of a strategy that comes twice are added up."""
    fields: Any = {"trials": said.trials, "successes": said.successes}
    try:
        record = PriorRecord(**of, text=said.text, verdict=said.verdict, **fields)
    except ValidationError as error:
        file.refuse(said.line, f"has a {error.field} that {error.problem}", error.remedy)
    if before := told.get(record.text):
        if record.verdict != before.verdict and not (before.trials and said.trials):
            file.refuse(said.line, f"says to {said.verdict} what an earlier line says not to")
        won, trials = before.successes + said.successes, before.trials + said.trials
        counted: Advice = "do" if 2 * won >= trials else "avoid"
        verdict = counted if trials else before.verdict
        update = {"trials": trials, "successes": won, "verdict": verdict}
        record = record.model_copy(update=update)
    told[record.text] = record


def _read(file: _File, source: str) -> Iterator[tuple[str, str | None, _Said]]:
    """Yield the kinds of tasks of a file, with their descriptions, and what it says of them."""
    if file.path.name != FILE and _PLAYBOOK.search("\n".join(file.lines)):
        yield from _read_playbook(file, source)
        return
    if not file.lines[0].startswith("---"):
        remedy = "begin a skill with name and description between lines of ---"
        file.refuse(1, "is no front matter, and no line is of a playbook", remedy)
    front, end = _read_front(file)
    own = front.get("metadata", "").startswith("graphmem: ")
    for name in ("name", "description"):
        if not front.get(name):
            file.refuse(end, f"ends a front matter without a {name}", "add it")
    kind, read = front["name"], _read_own if own else _read_body
    if own:
        titles = (_HEADING.match(line) for line in file.lines[end:])
        title = next((found[1] for found in titles if found), "")
        kind = next(iter(_unquoted(title[:LONGEST])), kind)
    said = list(read(file, end))
    if not said and not own:
        file.refuse(end, "is followed by no list and no sentence", "say what to do")
    about = _ABOUT.search(front["description"]) if own else None
    yield from ((kind, about[1] if about else front["description"], one) for one in said)


def _read_playbook(file: _File, source: str) -> Iterator[tuple[str, str | None, _Said]]:
    kind = source
    for number, line in enumerate(file.lines, 1):
        if heading := _HEADING.match(line):
            kind = heading[1].strip(" \t#") or source
        elif found := _BULLET.fullmatch(line):
            helpful, harmful = int(found[1]), int(found[2])
            verdict: Advice = "avoid" if harmful > helpful else "do"
            if found[3].strip():
                said = _Said(number, found[3], verdict, helpful + harmful, helpful)
                yield kind, None, said
        elif _PLAYBOOK.match(line):
            remedy = "N is a number from 0 to 999999999"
            file.refuse(number, "is not [id] helpful=N harmful=N :: text", remedy)


def _read_front(file: _File) -> tuple[dict[str, str], int]:
    """Return the texts of a front matter by name, and the number of its last line.

    This is the part of YAML that skills use: plain, quoted and folded texts; what nests is joined.
    """
    ends = (at for at, line in enumerate(file.lines) if at and line.rstrip() in ("---", "..."))
    end = next(ends, None)
    if end is None:
        file.refuse(1, "begins a front matter that does not end", "close it with a line of ---")
    found: dict[str, list[str]] = {}
    parts: list[str] | None = None
    for number, line in enumerate(file.lines[1:end], 2):
        named = _FRONT.fullmatch(line)
        if named and named[1] in found:
            file.refuse(number, f"repeats {named[1]}")
        if named:
            parts = found[named[1]] = [(named[2] or "").strip()]
        elif parts is not None and line[:1] in (" ", "\t", "-"):
            parts.append(line.strip())
        elif line.strip() and not line.startswith("#"):
            file.refuse(number, "is not name: value", "indent what belongs to the line above")
    return {name: _scalar(file, name, parts) for name, parts in found.items()}, end + 1


def _scalar(file: _File, name: str, parts: list[str]) -> str:
    folded = parts[0][:1] in (">", "|")
    text = " ".join(filter(None, parts[1:] if folded else parts))
    if len(text) > 1 and text[0] == text[-1] == "'":
        return text[1:-1].replace("''", "'")
    try:
        return str(json.loads(text)) if text[:1] in ("'", '"') else text
    except ValueError:
        file.refuse(None, f"has a {name} in quotes that do not end")


def _read_own(file: _File, start: int) -> Iterator[_Said]:
    """Yield the strategies of a skill that graphmem wrote, with their outcomes."""
    sections: dict[str, Advice] = {"Do": "do", "Avoid": "avoid"}
    verdict: Advice | None = None
    for number, line in enumerate(file.lines[start:], start + 1):
        if heading := _HEADING.match(line):
            verdict = sections.get(heading[1])
        elif verdict is None or len(line) > LONGEST:
            continue
        elif found := _WORKED.fullmatch(line.removeprefix("- ")):
            text = THEN.join(_unquoted(found[1].removeprefix(_ORDER)))
            won, trials = (int(found[place].replace(",", "")) for place in (2, 3))
            yield _Said(number, text or found[1], verdict, trials, won)


def _unquoted(text: str) -> list[str]:
    return [found[2] for found in _QUOTED.finditer(text)]


def _read_body(file: _File, start: int) -> Iterator[_Said]:
    """Yield the items of all lists; without any, the paragraphs."""
    items: list[_Said] = []
    paragraphs: list[_Said] = []
    for number, block, avoiding in _blocks(file.lines, start):
        item = _ITEM.match(block)
        text = item[2] if item else block
        told = _NOT.match(text)
        verdict: Advice = "avoid" if avoiding or told else "do"
        said = _Said(number, text[told.end() :] if told else text, verdict)
        if text.strip():
            (items if item else paragraphs).append(said)
    yield from items or paragraphs


def _blocks(lines: list[str], start: int) -> Iterator[tuple[int, str, bool]]:
    """Yield items and paragraphs, each on one line, and whether their heading says to avoid them.

    Blocks of code, comments and tables are left out; what is indented below an item is part of it.
    """
    block: tuple[int, str, bool] | None = None
    avoiding, indent = False, -1
    text = _NO_PROSE.sub(lambda found: "\n" * found[0].count("\n"), "\n".join(lines[start:]))
    for number, line in enumerate(text.split("\n"), start + 1):
        heading, item = _HEADING.match(line), _ITEM.match(line)
        deeper = item is not None and indent >= 0 and len(item[1]) > indent
        if not line.strip():
            if indent < 0 and block:
                yield block
                block = None
        elif heading or (item and not deeper) or (indent >= 0 and not line[:1].isspace()):
            if block:
                yield block
            block, indent = None, len(item[1]) if item else -1
            avoiding = bool(_AVOIDING.search(heading[1])) if heading else avoiding
            block = None if heading else (number, line.strip(), avoiding)
        elif block and len(block[1]) <= LONGEST:  # what is longer is refused
            more = item[2] if item else line.strip()
            block = block[0], f"{block[1]} {more}", block[2]
        elif not block:
            block = number, line.strip(), avoiding
    if block:
        yield block
