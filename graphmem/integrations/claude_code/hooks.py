"""Answers hooks: gives the context of a prompt, and learns from a session at its end."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphmem.episodes.abandoned import abandoned_id
from graphmem.episodes.naming import TOOLS, strategies
from graphmem.errors import GraphMemError, NotFoundError, ValidationError
from graphmem.integrations.claude_code.outcome import last_run, parse_statement, without_statement
from graphmem.integrations.claude_code.transcript import Call, Work, works
from graphmem.integrations.outcomes import Judge, Run, judge_of
from graphmem.models import AbandonedAttempt, Step
from graphmem.models.fields import MAX_STEPS
from graphmem.printable import counted

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


def task_of(prompt: str) -> str:
    """Return the task of a prompt, without statements about the prompt before."""
    text, _ = without_statement(prompt)
    return _clean(text[:TASK]).strip()


def answer_prompt(
    given: dict[str, Any], terms: Terms, open_memory: Callable[[], Memory | None]
) -> dict[str, Any] | None:
    """Return the answer to the hook UserPromptSubmit, None if there is nothing to say.

    It opens the memory only if the prompt sets a task.
    """
    prompt = given.get("prompt")
    if not isinstance(prompt, str):
        raise ValidationError("prompt", prompt, "is not the text of a prompt")
    _, said = without_statement(prompt)
    answer: dict[str, Any] = {}
    if said is not None and parse_statement(said) is None:
        answer["systemMessage"] = (
            f"graphmem: {said!r} is no outcome; write success, failure, or a score from 0 to 1"
        )
    context = ""
    if task := task_of(prompt):
        memory = open_memory()
        if memory is not None:
            context = memory.context(task, max_tokens=terms.max_tokens, agent=terms.agent)
    elif said is not None:
        context = _STATED
    if context:
        answer["hookSpecificOutput"] = {
            "hookEventName": "UserPromptSubmit",
            "additionalContext": context,
        }
    return answer or None


def learn_session(memory: Memory, given: dict[str, Any], terms: Terms) -> Learning:
    """Learn what a session did, at its hook SessionEnd; known episodes stay as they are.

    Raises:
        ValidationError: the hook does not name a session and its transcript.
        NotFoundError: there is no such evaluator.
        OSError: the transcript cannot be read.
    """
    session, path = given.get("session_id"), given.get("transcript_path")
    for name, value in (("session_id", session), ("transcript_path", path)):
        if not isinstance(value, str) or not value.strip():
            raise ValidationError(name, value, "is not a text", "give the input of the hook")
    judge = judge_of(terms.outcome or "stated")
    refused: list[int] = []
    learning = Learning()
    problems = learning.problems
    with Path(str(path)).expanduser().open("rb") as lines:
        for work, said in match_statements(works(lines, refused)):
            try:
                _learn(memory, str(session), work, said, terms, judge, learning)
            except GraphMemError as error:
                if error.retryable:
                    raise
                problems.append(f"prompt {work.number}: {error}")
    if learning.learned:  # a question embeds new texts, so that no prompt waits for that
        with contextlib.suppress(GraphMemError):
            memory.context(AGENT, max_tokens=1)
    if refused:
        problems.append(
            f"{path} has {counted(len(refused), 'line')} without a JSON object, such as "
            f"{refused[0]}"
        )
    return learning


def match_statements(done: Iterator[Work]) -> Iterator[tuple[Work, bool | float | None]]:
    """Yield what was done for each task, and what the user said of it in a later prompt.

    A statement is about the latest work before it that had a reply.
    """
    last: Work | None = None
    said: bool | float | None = None
    for work in done:
        _, line = without_statement(work.prompt)
        outcome = parse_statement(line)
        if outcome is not None:
            said = outcome
        if work.replied and task_of(work.prompt):
            if last is not None:
                yield last, said
            last, said = work, None
    if last is not None:
        yield last, said


def _learn(
    memory: Memory,
    session: str,
    work: Work,
    said: bool | float | None,
    terms: Terms,
    judge: Judge,
    learning: Learning,
) -> None:
    agent = terms.agent or AGENT
    key = f"{AGENT}/{session}/{work.number}"
    about = {
        "session_id": session,
        "prompt": work.number,
        "model": work.model,
        **{name: work.record.get(name) for name in ("cwd", "gitBranch", "version")},
    }
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
    if said is None:
        try:
            said = judge(_run(work, common, terms))
        except Exception as error:  # noqa: BLE001 - it is a function of others
            problem = f"the evaluator raised {type(error).__name__}: {error}"
            learning.problems.append(f"prompt {work.number}: {problem}")
    if said is None:
        from graphmem.memory import attempts_of

        uses = [{"text": text} for text in used]
        attempts_of(memory).store(AbandonedAttempt(key=key, strategy=uses, **common))
        learning.unjudged += 1
        return
    if not isinstance(said, bool | float | int):
        raise ValidationError("outcome", said, "must be True, False, a score in [0, 1], or None")
    named = "success" if isinstance(said, bool) else "score"
    learned = memory.learn(strategy=used, source_key=key, **common | {named: said})
    if not learned.created:
        learning.known += 1
        return
    learning.learned += 1
    with contextlib.suppress(NotFoundError):  # it was stored before somebody stated the outcome
        memory.upkeep.erase(abandoned_id(memory.namespace, key))


def _run(work: Work, common: dict[str, Any], terms: Terms) -> Run:
    test = terms.test_command
    return Run(
        task=common["task"],
        answer=work.answer,
        steps=tuple(common["steps"]),
        agent=common["agent"],
        stated=last_run(work, test) if test else None,
        metadata=common["extra"],
    )


def _step(call: Call) -> Step:
    text = None if call.text is None else _shorten(_clean(call.text))
    return Step(
        action_type=_clean(call.name)[:200],
        action=_action(call.input),
        observation=None if call.failed else text,
        error=text if call.failed else None,
    )


def _action(given: dict[str, Any]) -> Any:
    """Return the input of a tool, its texts shortened."""
    short = {
        name: _shorten(value) if isinstance(value, str) else value for name, value in given.items()
    }
    text = _clean(json.dumps(short, ensure_ascii=False))
    return json.loads(text) if len(text) <= 5 * SHOWN else _shorten(text)


def _shorten(text: str) -> str:
    rest = len(text) - SHOWN
    return text if rest <= 0 else f"{text[:SHOWN]}... ({rest:,} more characters)"


def _clean(text: str) -> str:
    """Return a text without lone surrogates, which cannot be stored."""
    return text.encode("utf-8", "replace").decode()


def answer(
    given: dict[str, Any], terms: Terms, open_memory: Callable[[bool], Memory | None]
) -> dict[str, Any] | Learning | None:
    """Return the answer to a hook, None if there is nothing to say.

    Args:
        given: the input of the hook from Claude Code.
        terms: the options with which hooks were installed.
        open_memory: opens the memory for asking (True), or for learning; None: there is none yet.
    """
    event = given.get("hook_event_name")
    if event == "UserPromptSubmit":
        return answer_prompt(given, terms, lambda: open_memory(True))
    if event == "SessionEnd":
        memory = open_memory(False)
        return None if memory is None else learn_session(memory, given, terms)
    raise ValidationError(
        "hook_event_name", event, "is not a hook of graphmem", "UserPromptSubmit or SessionEnd"
    )
