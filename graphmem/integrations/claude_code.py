"""Claude Code: its hooks give a session the memory, and learn how it went from its transcript.

A transcript has JSON lines, to which Claude Code only adds. A line of the user is a prompt, or
holds results of tools. Lines that do not come from the user (subagents, hooks, summaries, output of
local commands) are no prompts. What a user states, and the last run of a test command, say how a
prompt went.

Hooks are written into a file of settings, and taken out. It is JSON that belongs to others: order,
indentation and everything else in it stay.
"""

from __future__ import annotations

import contextlib
import json
import re
import shlex
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphmem.episodes.naming import TOOLS, strategies
from graphmem.errors import GraphMemError, NotFoundError, StorageError, ValidationError
from graphmem.files import writing
from graphmem.ids import abandoned_id
from graphmem.integrations.outcomes import Judge, Run, judge_of
from graphmem.models.episodes import AbandonedAttempt, Step
from graphmem.models.fields import MAX_STEPS
from graphmem.printable import counted
from graphmem.text.words import ends, text_of

if TYPE_CHECKING:
    from graphmem.memory import Memory

MOST = 64_000_000  # most bytes of a transcript
_ADDED = re.compile(
    r"<(?:ide_\w+|system-reminder|user-prompt-submit-hook)>.*?</[\w-]+>\s*", re.DOTALL
)
_NO_PROMPT = re.compile(
    r"<(?:bash-|local-command-|task-notification|teammate-message|user-memory-input)"
    r"|\[Request interrupted|Caveat: The messages below|This session is being continued from"
)
_UNTOLD = ("interrupted", "backgroundTaskId", "returnCodeInterpretation")
_NAME = re.compile(r"<command-name>\s*(/?\S+?)\s*</command-name>")
_ARGUMENTS = re.compile(r"<command-args>(.*?)</command-args>", re.DOTALL)


@dataclass
class Call:
    """One call of a tool, and its result."""

    name: str
    input: dict[str, Any]
    text: str | None = None
    failed: bool = False
    untold: bool = False
    """Whether its end is unknown: it was stopped, goes on, or a failure is no error of it."""


@dataclass
class Work:
    """What was done for one prompt."""

    number: int
    prompt: str
    record: dict[str, Any]  # the line of the prompt
    started_at: datetime | None
    ended_at: datetime | None
    calls: list[Call] = field(default_factory=list)
    answer: str | None = None
    model: str | None = None
    replied: bool = False


def read_lines(path: Path) -> Iterator[bytes]:
    """Yield the lines of a transcript.

    Raises:
        StorageError: it is no regular file, or too large.
    """
    about = path.stat()
    if not stat.S_ISREG(about.st_mode):
        raise StorageError(f"{path} is no regular file, so it is no transcript")
    if about.st_size > MOST:
        raise StorageError(f"{path} has more than {MOST:,} bytes, so it is not learned")
    with path.open("rb") as file:
        yield from file


def works(lines: Iterable[bytes], refused: list[int]) -> Iterator[Work]:
    """Yield what was done for each prompt, in order; add the numbers of damaged lines."""
    current: Work | None = None
    number = 0
    open_calls: dict[str, Call] = {}
    for entry in _entries(lines, refused):
        message = entry.get("message")
        if entry.get("isSidechain") or not isinstance(message, dict):
            continue
        content = message.get("content")
        listed = content if isinstance(content, list) else []
        blocks = [block for block in listed if isinstance(block, dict)]
        if entry.get("type") == "assistant" and current is not None:
            _reply(current, message, blocks, open_calls)
        elif entry.get("type") == "user":
            for block in blocks:
                _result(block, entry, open_calls)
            prompt = _prompt(entry, content, blocks)
            if prompt is not None:
                if current is not None:
                    yield current
                number += 1
                at = _moment(entry)
                current = Work(number, prompt, entry, at, at)
        if current is not None and (at := _moment(entry)):
            current.ended_at = max(current.ended_at or at, at)
    if current is not None:
        yield current


def _entries(lines: Iterable[bytes], refused: list[int]) -> Iterator[dict[str, Any]]:
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            entry = json.loads(line)
            if b"\\u" in line:  # it may hold lone surrogates, which cannot be stored
                entry = json.loads(json.dumps(entry, ensure_ascii=False).encode("utf-8", "replace"))
        except (ValueError, RecursionError):
            entry = None
        if isinstance(entry, dict):
            yield entry
        else:
            refused.append(number)


def _reply(
    work: Work, message: dict[str, Any], blocks: list[dict[str, Any]], calls: dict[str, Call]
) -> None:
    work.replied = True
    model = message.get("model")
    if isinstance(model, str) and model != "<synthetic>":
        work.model = model
    for block in blocks:
        name, given, text = block.get("name"), block.get("input"), block.get("text")
        if block.get("type") == "text" and isinstance(text, str):
            work.answer = text
        elif block.get("type") == "tool_use" and isinstance(name, str) and name.strip():
            call = Call(name, given if isinstance(given, dict) else {})
            work.calls.append(call)
            calls[str(block.get("id"))] = call


def _result(block: dict[str, Any], entry: dict[str, Any], calls: dict[str, Call]) -> None:
    call = calls.pop(str(block.get("tool_use_id")), None)
    if call is None or block.get("type") != "tool_result":
        return
    call.text = text_of(block.get("content"))
    call.failed = bool(block.get("is_error"))
    more = entry.get("toolUseResult")
    marks = [more.get(name) for name in _UNTOLD] if isinstance(more, dict) else []
    call.untold = any((*marks, entry.get("toolDenialKind"), call.input.get("run_in_background")))


def _prompt(entry: dict[str, Any], content: Any, blocks: list[dict[str, Any]]) -> str | None:
    """Return what the user asked in a line, None if it is no prompt."""
    origin = entry.get("origin")
    if (
        any(entry.get(mark) for mark in ("isMeta", "isCompactSummary", "isVisibleInTranscriptOnly"))
        or (isinstance(origin, dict) and origin.get("kind", "human") != "human")
        or entry.get("promptSource") == "system"
        or any(block.get("type") == "tool_result" for block in blocks)
    ):
        return None
    text = _ADDED.sub("", text_of(content)).strip()
    if named := _NAME.search(text):
        arguments = _ARGUMENTS.search(text)
        text = f"/{named[1].lstrip('/')} {arguments[1] if arguments else ''}".strip()
    return None if not text or _NO_PROMPT.match(text) else text


def _moment(entry: dict[str, Any]) -> datetime | None:
    try:
        moment = datetime.fromisoformat(entry["timestamp"])
    except (KeyError, TypeError, ValueError):
        return None
    return moment if moment.tzinfo else None


_LINE = re.compile(r"(?im)^[ \t]*graphmem:[ \t]*(\S+)[ \t]*$")
_FAILED = re.compile(r"(?:Error: )?Exit code (\d+)")
_ABOVE = 125  # greater exit codes say that a command was not found, or was ended
_BEFORE = ("cd", "source", ".", "export", "set")
"""Commands before a test that are not likely to be what failed."""
_ASSIGNED = re.compile(r"[A-Za-z_]\w*=")


def without_statement(prompt: str) -> tuple[str, str | None]:
    """Return a prompt without its lines ``graphmem: ...``, and what the last of them says."""
    said = _LINE.findall(prompt)
    return _LINE.sub("", prompt).strip(), said[-1] if said else None


def parse_statement(said: str | None) -> bool | float | None:
    """Return the outcome that a line states (success, failure, a score), or None."""
    if said is None:
        return None
    word = said.lower()
    if word in ("success", "failure"):
        return word == "success"
    try:
        score = float(word)
    except ValueError:
        return None
    return score if 0 <= score <= 1 else None


def last_run(work: Work, command: str) -> bool | str | None:
    """Return how the last run of a test command ended; or why it does not tell; None: none ran.

    A run tells if the exit status of its line is that of the command: the command comes last, is
    not piped into another program, and does not run in the background.
    """
    words = shlex.split(command)
    for call in reversed(work.calls):
        line = call.input.get("command")
        if call.name == "Bash" and isinstance(line, str) and (how := _how_it_runs(line, words)):
            if how == "hidden":
                return f"the line with {command!r} does not end as the command does"
            if call.text is None or call.untold:
                return f"{command!r} was stopped, or goes on"
            if not call.failed:
                return True
            code = _FAILED.match(call.text)
            if how == "alone" and code and 0 < int(code[1]) <= _ABOVE:
                return False
            return f"{command!r} ended in an error without an exit code of its own"
    return None


def _how_it_runs(text: str, words: Sequence[str]) -> str | None:
    """Return how a command runs the words: ``alone``, ``after`` others, ``hidden``, or None."""
    lexer = shlex.shlex(text.replace("\\\n", " "), posix=True, punctuation_chars="();<>|&\n")
    lexer.whitespace, lexer.commenters, lexer.whitespace_split = " \t\r", "", True
    commands: list[list[str]] = [[]]
    between: set[str] = set()
    comment = False
    try:
        for token in lexer:
            if token and not token.strip("();|&\n"):
                comment = comment and "\n" not in token
                between.add(token.strip("();\n"))
                commands.append([])
            elif comment or token.startswith("#"):
                comment = True
            elif commands[-1] or not _ASSIGNED.match(token):
                commands[-1].append(token)
    except ValueError:  # quotes that do not end
        return "hidden" if words[0] in text else None
    commands = [command for command in commands if command]
    runs = [command[: len(words)] == [*words] for command in commands]
    if not any(runs):
        return None
    if not runs[-1] or between & {"||", "&", "|", "|&"}:
        return "hidden"
    return "alone" if all(command[0] in _BEFORE for command in commands[:-1]) else "after"


AGENT = "claude-code"
TASK = 2_000  # characters of a prompt that become its task
SHOWN = 2_000  # characters to keep of each text of a step
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
WORDS = ("hooks", "run", "claude-code")  # these words in its command identify a hook of graphmem


def write(path: Path, before: str | None, after: str) -> None:
    """Write a file of settings, unless it was changed meanwhile."""
    if _read(path) != before:
        raise StorageError(f"{path} was changed meanwhile; try again")
    path.parent.mkdir(parents=True, exist_ok=True)
    with writing(path) as file:
        file.write(after.encode())


def with_hooks(path: Path, command: str | None) -> tuple[str | None, str]:
    """Return a file of settings as it is (None: not there), and with hooks that run a command.

    They take the place of earlier hooks of graphmem; None takes those out.
    """
    before = _read(path)
    text = before if before is not None and before.strip() else "{}\n"
    settings = _parse(path, text)
    after = _replace_ours(settings, command)
    return before, (before or "") if after == settings else _formatted(after, text)


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
