"""Writes hooks into a file of settings of Claude Code, and takes them out.

The file is JSON that belongs to others. It is changed as text, only at hooks of graphmem: order,
indentation and everything else stay as they are.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from json.decoder import scanstring  # type: ignore[attr-defined]
from pathlib import Path
from typing import Any

from graphmem.errors import StorageError, ValidationError
from graphmem.files import writing

TIMEOUTS = {"UserPromptSubmit": 10, "SessionEnd": 30}
"""The hooks, and the seconds after which Claude Code ends them (by default 1.5 for SessionEnd)."""
WORDS = ("hooks", "run", "claude-code")
"""These words in its command identify a hook of graphmem."""


@dataclass(frozen=True)
class Change:
    """A change of a file; ``before`` is None if the file does not exist."""

    path: Path
    before: str | None
    after: str

    def apply(self) -> None:
        """Write it.

        Raises:
            StorageError: it cannot be written, or was changed meanwhile.
        """
        if _read(self.path) != self.before:
            raise StorageError(f"{self.path} was changed meanwhile; try again")
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with writing(self.path) as file:
            file.write(self.after.encode())


def install(path: Path, command: str) -> Change:
    """Return the change that lets the hooks run a command, instead of earlier ones.

    Raises:
        ValidationError: the file is not such settings.
    """
    before = _read(path)
    text = before if before is not None and before.strip() else "{}\n"
    if _commands(path, text) == [(event, command) for event in TIMEOUTS]:
        return Change(path, before, text)
    text = _without(path, text)
    for event, seconds in TIMEOUTS.items():
        hook = {"type": "command", "command": command, "timeout": seconds}
        text = _with(text, event, {"hooks": [hook]})
    return Change(path, before, text)


def uninstall(path: Path) -> Change:
    """Return the change that takes the hooks of graphmem out.

    Raises:
        ValidationError: the file is not such settings.
    """
    before = _read(path)
    return Change(path, before, "" if before is None else _without(path, before))


def _read(path: Path) -> str | None:
    try:
        return path.read_bytes().decode()
    except FileNotFoundError:
        return None
    except UnicodeDecodeError as error:
        raise ValidationError(str(path), error.reason, "is not UTF-8", "mend the file") from None


def _parsed(path: Path, text: str) -> dict[str, Any]:
    """Return the settings in a file.

    Raises:
        ValidationError: they are none.
    """
    try:
        settings = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValidationError(
            str(path), str(error), "is not JSON", "mend the file, then try again; it is unchanged"
        ) from None
    _check(path, settings, dict, "an object")
    events = settings.get("hooks", {})
    _check(path, events, dict, "an object, in hooks")
    for event in TIMEOUTS:
        _check(path, events.get(event, []), list, f"a list, in hooks.{event}")
    return settings  # type: ignore[no-any-return]


def _check(path: Path, value: object, kind: type, said: str) -> None:
    if not isinstance(value, kind):
        raise ValidationError(
            str(path), value, f"is not {said}", "mend the file, then try again; it is unchanged"
        )


def _commands(path: Path, text: str) -> list[tuple[str, str]]:
    """Return the hooks of graphmem: their events, and what they run."""
    return [
        (event, hook["command"])
        for event, groups in _parsed(path, text).get("hooks", {}).items()
        for group in (groups if isinstance(groups, list) else [])
        for hook in _hooks(group)
        if _is_ours(hook)
    ]


def _hooks(group: object) -> list[Any]:
    hooks = group.get("hooks") if isinstance(group, dict) else None
    return hooks if isinstance(hooks, list) else []


def _is_ours(hook: object) -> bool:
    command = hook.get("command") if isinstance(hook, dict) else None
    try:
        words = shlex.split(command) if isinstance(command, str) else []
    except ValueError:
        return False
    named = [word for word in words if "graphmem" in word]
    return bool(named) and any(tuple(words[at : at + 3]) == WORDS for at in range(len(words)))


def _with(text: str, event: str, group: dict[str, Any]) -> str:
    """Return settings with another group of hooks."""
    root = _start(text)
    hooks = _last(_members(text, root), "hooks")
    if hooks is None:
        return _added(text, root, {event: [group]}, "hooks")
    groups = _last(_members(text, hooks.start), event)
    if groups is None:
        return _added(text, hooks.start, [group], event)
    return _added(text, groups.start, group)


def _without(path: Path, text: str) -> str:
    """Return settings without hooks of graphmem, and without parts that held only these."""
    while _commands(path, text):
        settings = _parsed(path, text)
        root = _start(text)
        hooks = _last(_members(text, root), "hooks")
        assert hooks is not None  # noqa: S101
        text = _without_one(text, root, hooks, settings["hooks"])
    return text


def _without_one(text: str, root: int, hooks: _Span, events: dict[str, Any]) -> str:
    for event, groups in events.items():
        for index, group in enumerate(groups if isinstance(groups, list) else []):
            ours = [number for number, hook in enumerate(_hooks(group)) if _is_ours(hook)]
            if not ours:
                continue
            named = _last(_members(text, hooks.start), event)
            assert named is not None  # noqa: S101
            if len(_hooks(group)) > 1:
                at = list(_items(text, named.start))[index]
                inner = _last(_members(text, at.start), "hooks")
                assert inner is not None  # noqa: S101
                return _cut(text, list(_items(text, inner.start)), ours[0])
            if len(groups) > 1:
                return _cut(text, list(_items(text, named.start)), index)
            members = list(_members(text, hooks.start))
            if len(events) > 1:
                return _cut(text, members, members.index(named))
            members = list(_members(text, root))
            return _cut(text, members, members.index(hooks))
    return text


@dataclass(frozen=True)
class _Span:
    """The place of an item of a list, or of a member of an object, in a text."""

    begin: int
    """Place of the item, or of the name of the member."""
    start: int
    """Place of the value."""
    end: int
    name: str | None = None


_DECODER = json.JSONDecoder()


def _start(text: str) -> int:
    return _past(text, 0)


def _past(text: str, at: int) -> int:
    """Return the place of the next character that is no white space."""
    while text[at] in " \t\r\n":
        at += 1
    return at


def _members(text: str, start: int) -> Iterator[_Span]:
    """Yield the members of the object that starts here."""
    at = _past(text, start + 1)
    while text[at] != "}":
        begin = at
        name, at = scanstring(text, at + 1)
        value = _past(text, _past(text, at) + 1)
        _, end = _DECODER.raw_decode(text, value)
        yield _Span(begin, value, end, name)
        at = _past(text, end)
        if text[at] == ",":
            at = _past(text, at + 1)


def _items(text: str, start: int) -> Iterator[_Span]:
    """Yield the items of the list that starts here."""
    at = _past(text, start + 1)
    while text[at] != "]":
        _, end = _DECODER.raw_decode(text, at)
        yield _Span(at, at, end)
        at = _past(text, end)
        if text[at] == ",":
            at = _past(text, at + 1)


def _last(spans: Iterator[_Span], name: str) -> _Span | None:
    """Return the member of a name; of several the last one, as JSON is read."""
    return next((span for span in reversed(list(spans)) if span.name == name), None)


def _cut(text: str, spans: Sequence[_Span], index: int) -> str:
    """Return a text without one of several items, or members."""
    span = spans[index]
    if index:
        return text[: spans[index - 1].end] + text[span.end :]
    if len(spans) > 1:
        return text[: span.begin] + text[spans[1].begin :]
    before = text[: span.begin].rstrip()
    return before + text[_past(text, span.end) :]


def _added(text: str, start: int, value: object, name: str | None = None) -> str:
    """Return a text with another item, or member, at the end of the list or object here."""
    kind = _members if text[start] == "{" else _items
    spans = list(kind(text, start))
    _, end = _DECODER.raw_decode(text, start)
    label = "" if name is None else f"{json.dumps(name)}: "
    if spans and "\n" not in text[start:end]:  # all in one line
        made = label + json.dumps(value, ensure_ascii=False)
        return f"{text[: spans[-1].end]}, {made}{text[spans[-1].end :]}"
    newline = "\r\n" if "\r\n" in text else "\n"
    outer = _indent(text, start)
    unit = _unit(text)
    inner = _indent(text, spans[-1].begin) if spans else outer + unit
    made = label + json.dumps(value, ensure_ascii=False, indent=unit)
    made = made.replace("\n", newline + inner)
    if spans:
        return f"{text[: spans[-1].end]},{newline}{inner}{made}{text[spans[-1].end :]}"
    return f"{text[: start + 1]}{newline}{inner}{made}{newline}{outer}{text[end - 1 :]}"


def _indent(text: str, at: int) -> str:
    """Return the white space with which a line begins."""
    line = text[text.rfind("\n", 0, at) + 1 :]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _unit(text: str) -> str:
    """Return the indentation of this text's first member."""
    first = next(_members(text, _start(text)), None)
    found = _indent(text, first.begin) if first is not None else ""
    return found if found and first and "\n" in text[: first.begin] else "  "
