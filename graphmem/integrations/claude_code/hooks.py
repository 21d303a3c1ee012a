"""Answers hooks: gives the context of a prompt, and learns from a session at its end.

Also writes hooks into a file of settings, and takes them out. The file is JSON that belongs to
others: order, indentation and everything else in it stay.
"""

from __future__ import annotations

import contextlib
import json
import re
import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphmem.episodes.naming import TOOLS, strategies
from graphmem.errors import GraphMemError, NotFoundError, StorageError, ValidationError
from graphmem.files import writing
from graphmem.ids import abandoned_id
from graphmem.integrations.claude_code.transcript import (
    Call,
    Work,
    last_run,
    parse_statement,
    read_lines,
    without_statement,
    works,
)
from graphmem.integrations.outcomes import Judge, Run, judge_of
from graphmem.models.episodes import AbandonedAttempt, Step
from graphmem.models.fields import MAX_STEPS
from graphmem.printable import counted
from graphmem.text.words import ends

if TYPE_CHECKING:
    from graphmem.memory import Memory

AGENT = "claude-code"
TASK = 2_000
"""Characters of a prompt that become its task."""
SHOWN = 2_000
"""Characters to keep of each text of a step."""
_STATED = (
    "The user told graphmem, which remembers what works, how the task before went. "
    "There is nothing to do."
)


@dataclass(frozen=True)
class Terms:
    """The options with which hooks were installed."""

    outcome: str | None = None
    test_command: str | None = None
    strategy_from: str = TOOLS
    agent: str | None = None
    max_tokens: int = 400


@dataclass
class Learning:
    """What was learned from a session."""

    learned: int = 0
    known: int = 0
    unjudged: int = 0
    problems: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return (
            f"{counted(self.learned, 'prompt')} learned, {self.known} known already, "
            f"{self.unjudged} without an outcome"
        )


def answer(
    given: dict[str, Any], terms: Terms, open_memory: Callable[[bool], Memory | None]
) -> dict[str, Any] | Learning | None:
    """Return the answer to a hook, None if there is nothing to say.

    ``open_memory`` opens the memory for asking (True), or for learning; None: there is none yet.
    """
    event = given.get("hook_event_name")
    if event == "UserPromptSubmit":
        return _answer_prompt(given.get("prompt"), terms, open_memory)
    if event == "SessionEnd":
        memory = open_memory(False)
        return None if memory is None else learn_session(memory, given, terms)
    raise ValidationError(
        "hook_event_name", event, "is not a hook of graphmem", "UserPromptSubmit or SessionEnd"
    )


def task_of(prompt: str) -> str:
    """Return the task of a prompt, without statements about the prompt before."""
    text, _ = without_statement(prompt)
    return ends(text, TASK).encode("utf-8", "replace").decode().strip()


def _answer_prompt(
    prompt: object, terms: Terms, open_memory: Callable[[bool], Memory | None]
) -> dict[str, Any] | None:
    """Return what is known of a prompt; it opens the memory only if the prompt sets a task."""
    if not isinstance(prompt, str):
        raise ValidationError("prompt", prompt, "is not the text of a prompt")
    _, statement = without_statement(prompt)
    answer: dict[str, Any] = {}
    if statement is not None and parse_statement(statement) is None:
        answer["systemMessage"] = (
            f"graphmem: {statement!r} is no outcome; write success, failure, or a score from 0 to 1"
        )
    context = "" if statement is None else _STATED
    if task := task_of(prompt):
        memory = open_memory(True)
        context = ""
        if memory is not None:
            context = memory.context(task, max_tokens=terms.max_tokens, agent=terms.agent)
    if context:
        answer["hookSpecificOutput"] = {
            "hookEventName": "UserPromptSubmit",
            "additionalContext": context,
        }
    return answer or None


def learn_session(memory: Memory, given: dict[str, Any], terms: Terms) -> Learning:
    """Learn what a session did, at its hook SessionEnd; known episodes stay as they are."""
    for name in ("session_id", "transcript_path"):
        value = given.get(name)
        if not isinstance(value, str) or not value.strip():
            raise ValidationError(name, value, "is not a text", "give the input of the hook")
    path, judge = Path(given["transcript_path"]).expanduser(), judge_of(terms.outcome or "stated")
    damaged: list[int] = []
    learning = Learning()
    try:
        for work, outcome in match_statements(works(read_lines(path), damaged)):
            try:
                _learn(memory, given["session_id"], work, outcome, terms, judge, learning)
            except GraphMemError as error:
                if error.retryable:
                    raise
                learning.problems.append(f"prompt {work.number}: {error}")
    except StorageError as error:
        learning.problems.append(str(error))
    if learning.learned:  # a question embeds new texts, so that no prompt waits for that
        with contextlib.suppress(GraphMemError):
            memory.context(AGENT, max_tokens=1)
    if damaged:
        lost = counted(len(damaged), "line")
        learning.problems.append(f"{path} has {lost} without a JSON object, such as {damaged[0]}")
    return learning


def match_statements(done: Iterator[Work]) -> Iterator[tuple[Work, bool | float | None]]:
    """Yield what was done for each task, and what the user said of it in a later prompt.

    A statement is about the latest work before it that had a reply.
    """
    last: Work | None = None
    outcome: bool | float | None = None
    for work in done:
        later = parse_statement(without_statement(work.prompt)[1])
        outcome = outcome if later is None else later
        if work.replied and task_of(work.prompt):
            if last is not None:
                yield last, outcome
            last, outcome = work, None
    if last is not None:
        yield last, outcome


def _learn(
    memory: Memory,
    session: str,
    work: Work,
    outcome: bool | float | None,
    terms: Terms,
    judge: Judge,
    learning: Learning,
) -> None:
    """Learn what was done for a prompt; without an outcome, it is an abandoned attempt."""
    key, agent = f"{AGENT}/{session}/{work.number}", terms.agent or AGENT
    record = {name: work.record.get(name) for name in ("cwd", "gitBranch", "version")}
    about = {"session_id": session, "prompt": work.number, "model": work.model, **record}
    common: dict[str, Any] = {
        "task": task_of(work.prompt),
        "agent": agent,
        "steps": [_step(call) for call in work.calls[:MAX_STEPS]],
        "started_at": work.started_at,
        "ended_at": work.ended_at,
        "source": AGENT,
        "extra": {name: value for name, value in about.items() if value is not None},
    }
    used = strategies(
        terms.strategy_from,
        tools=[call.name for call in work.calls],
        model=work.model,
        agent=agent,
        fields={**work.record, **about},
    )
    if outcome is None:
        test = last_run(work, terms.test_command) if terms.test_command else None
        if isinstance(test, str):
            learning.problems.append(f"prompt {work.number}: {test}, so it says no outcome")
            test = None
        steps = tuple(common["steps"])
        run = Run(common["task"], work.answer or "", steps, None, agent, test, common["extra"])
        try:
            outcome = judge(run)
        except GraphMemError:
            raise
        except Exception as error:  # noqa: BLE001 - it is a function of others
            problem = f"the evaluator raised {type(error).__name__}: {error}"
            learning.problems.append(f"prompt {work.number}: {problem}")
    if outcome is None:
        uses = [{"text": text} for text in used]
        memory._attempts.store(AbandonedAttempt(key=key, strategy=uses, **common))
        learning.unjudged += 1
        return
    judged = {"success" if isinstance(outcome, bool) else "score": outcome}
    if not memory.learn(strategy=used, source_key=key, **common | judged).created:
        learning.known += 1
        return
    learning.learned += 1
    with contextlib.suppress(NotFoundError):  # it was stored before somebody stated the outcome
        memory.upkeep.erase(abandoned_id(memory.namespace, key))


def _step(call: Call) -> Step:
    text = None if call.text is None else _shorten(call.text)
    short = {
        name: _shorten(value) if isinstance(value, str) else value
        for name, value in call.input.items()
    }
    whole = json.dumps(short, ensure_ascii=False)
    return Step(
        action_type=call.name[:200],
        action=short if len(whole) <= 5 * SHOWN else _shorten(whole),
        observation=None if call.failed else text,
        error=text if call.failed else None,
    )


def _shorten(text: str) -> str:
    rest = len(text) - SHOWN
    return text if rest <= 0 else f"{text[:SHOWN]}... ({rest:,} more characters)"


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


def install(path: Path, command: str | None) -> Change:
    """Return the change that lets the hooks run a command, instead of earlier ones.

    None takes the hooks of graphmem out.
    """
    before = _read(path)
    text = before if before is not None and before.strip() else "{}\n"
    settings = _parse(path, text)
    after = _replace_ours(settings, command)
    return Change(path, before, (before or "") if after == settings else _formatted(after, text))


def _read(path: Path) -> str | None:
    try:
        return path.read_bytes().decode()
    except FileNotFoundError:
        return None
    except UnicodeDecodeError as error:
        raise _refusal(path, error.reason, "is not UTF-8") from None


def _parse(path: Path, text: str) -> dict[str, Any]:
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


def _replace_ours(settings: dict[str, Any], command: str | None) -> dict[str, Any]:
    """Return settings whose only hooks of graphmem run a command; None: that have none."""
    events = {event: _drop_ours(groups) for event, groups in settings.get("hooks", {}).items()}
    events = {event: groups for event, groups in events.items() if groups != []}
    for event, seconds in TIMEOUTS.items() if command is not None else ():
        hook = {"type": "command", "command": command, "timeout": seconds}
        events[event] = [*events.get(event, []), {"hooks": [hook]}]
    changed = {**settings, "hooks": events}
    if not events:
        del changed["hooks"]
    return changed


def _drop_ours(groups: Any) -> Any:
    """Return the groups of an event without hooks of graphmem, and groups that held only these."""
    if not isinstance(groups, list):
        return groups
    kept = []
    for group in groups:
        hooks = group.get("hooks") if isinstance(group, dict) else None
        others = (
            [hook for hook in hooks if not _is_ours(hook)] if isinstance(hooks, list) else hooks
        )
        if others == hooks:
            kept.append(group)
        elif others:
            kept.append(group | {"hooks": others})
    return kept


def _is_ours(hook: object) -> bool:
    command = hook.get("command") if isinstance(hook, dict) else None
    try:
        words = shlex.split(command) if isinstance(command, str) else []
    except ValueError:
        return False
    named = [word for word in words if "graphmem" in word]
    return bool(named) and any(tuple(words[at : at + 3]) == WORDS for at in range(len(words)))


def _formatted(settings: dict[str, Any], before: str) -> str:
    """Return settings as JSON, with the indentation, line ends and escapes of a text."""
    body = before.strip()
    found = re.search(r"\n([ \t]+)", body)
    one_line = body != "{}" and "\n" not in body
    indent = None if one_line else found[1] if found else "  "
    text = json.dumps(settings, indent=indent, ensure_ascii="\\u" in body)
    newline = "\r\n" if "\r\n" in before else "\n"
    return text.replace("\n", newline) + before[len(before.rstrip()) :]
