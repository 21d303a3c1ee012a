"""Writes hooks into a file of settings of Claude Code, and takes them out.

The file is JSON that belongs to others: order, indentation and everything else in it stay.
"""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import dataclass
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
        """Write it, unless the file was changed meanwhile."""
        if _read(self.path) != self.before:
            raise StorageError(f"{self.path} was changed meanwhile; try again")
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with writing(self.path) as file:
            file.write(self.after.encode())


def install(path: Path, command: str) -> Change:
    """Return the change that lets the hooks run a command, instead of earlier ones."""
    return _change(path, [(event, command) for event in TIMEOUTS])


def uninstall(path: Path) -> Change:
    """Return the change that takes the hooks of graphmem out."""
    return _change(path, [])


def _change(path: Path, wanted: list[tuple[str, str]]) -> Change:
    before = _read(path)
    text = before if before is not None and before.strip() else "{}\n"
    settings = _parse(path, text)
    if _commands(settings) == wanted:
        return Change(path, before, before or "")
    _remove_ours(settings)
    for event, command in wanted:
        hook = {"type": "command", "command": command, "timeout": TIMEOUTS[event]}
        settings.setdefault("hooks", {}).setdefault(event, []).append({"hooks": [hook]})
    return Change(path, before, _formatted(settings, text))


def _read(path: Path) -> str | None:
    try:
        return path.read_bytes().decode()
    except FileNotFoundError:
        return None
    except UnicodeDecodeError as error:
        raise _refusal(path, error.reason, "is not UTF-8") from None


def _parse(path: Path, text: str) -> dict[str, Any]:
    """Return the settings in a file."""
    try:
        settings = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _refusal(path, str(error), "is not JSON") from None
    if not isinstance(settings, dict):
        raise _refusal(path, settings, "is not an object")
    events = settings.get("hooks", {})
    if not isinstance(events, dict):
        raise _refusal(path, events, "is not an object, in hooks")
    for event in TIMEOUTS:
        if not isinstance(groups := events.get(event, []), list):
            raise _refusal(path, groups, f"is not a list, in hooks.{event}")
    return settings


def _refusal(path: Path, value: object, problem: str) -> ValidationError:
    return ValidationError(
        str(path), value, problem, "mend the file, then try again; it is unchanged"
    )


def _commands(settings: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the hooks of graphmem: their events, and what they run."""
    return [
        (event, hook["command"])
        for event, groups in settings.get("hooks", {}).items()
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


def _remove_ours(settings: dict[str, Any]) -> None:
    """Take hooks of graphmem out, and parts that held only these."""
    for event in {event for event, _ in _commands(settings)}:
        groups = []
        for group in settings["hooks"][event]:
            others = [hook for hook in _hooks(group) if not _is_ours(hook)]
            if others == _hooks(group):
                groups.append(group)
            elif others:
                groups.append(group | {"hooks": others})
        settings["hooks"][event] = groups
        if not groups:
            del settings["hooks"][event]
    if settings.get("hooks") == {}:
        del settings["hooks"]


def _formatted(settings: dict[str, Any], before: str) -> str:
    """Return settings as JSON, with the indentation, line ends and escapes of a text."""
    body = before.strip()
    found = re.search(r"\n([ \t]+)", body)
    one_line = body != "{}" and "\n" not in body
    indent = None if one_line else found[1] if found else "  "
    text = json.dumps(settings, indent=indent, ensure_ascii="\\u" in body)
    newline = "\r\n" if "\r\n" in before else "\n"
    return text.replace("\n", newline) + before[len(before.rstrip()) :]
