"""InterCode SQL result files: a JSON object of runs with their turns.

Mapping: the task is the ``query``, its key the ``task_id``, its type the environment. The file name
gives the set-up (prompting mode, model, number of turns, handicap), which is the first strategy;
the other strategies are the kinds of statements (``(no SQL)`` for prose) in order of first use. The
outcome is ``summary.max_reward`` (1 is a success). The number of turns and the rewards reveal the
outcome and never become a strategy. Hardness goes into ``extra``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from itertools import chain, repeat, zip_longest
from typing import Any, BinaryIO

from graphmem.ids import canonical_json
from graphmem.models import MAX_TEXT, Episode, Step
from graphmem.seeding.formats import Format, Origin, Record, read_record
from graphmem.seeding.reading import Values

ERROR = "Error executing query"
_MULTITURN = re.compile(
    r"(?:ic_\w+?_)?multiturn_(?P<model>.+?)[-_](?P<turns>\d+)_turns(?P<handicap>_handicap)?"
)
_PREFIX = re.compile(r"^ic_[a-z]+_")
_WRAPPED = re.compile(r"^\W*(?:execute\s*\[|sql\b)?\W*", re.IGNORECASE)
_WORD = re.compile(r"[A-Za-z]+")
VERBS: dict[str, str] = dict.fromkeys(
    (
        *("SELECT", "SHOW", "DESCRIBE", "EXPLAIN", "WITH", "USE", "INSERT", "UPDATE", "DELETE"),
        *("CREATE", "ALTER", "DROP", "SET", "CALL", "SUBMIT"),
    ),
    "",
) | {"DESC": "DESCRIBE"}
_KNOWN = frozenset({"task_id", "query", "turn_history", "summary", "environment"})


def detect(head: bytes) -> bool:
    """Return whether it is an object of runs with a ``turn_history``."""
    return head.lstrip().startswith(b"{") and b'"turn_history"' in head


def read(stream: BinaryIO, origin: Origin) -> Iterator[Record]:
    """Yield the runs of a file, also if they are wrapped in ``logs``."""
    values = Values(stream, origin.limits)
    for number, key in enumerate(_keys(values), 1):
        yield read_record(
            number, "InterCode run", values.value, partial(episode, key, origin=origin)
        )
    values.end()


def _keys(values: Values) -> Iterator[str]:
    """Yield the keys of runs; the caller then reads each run."""
    wrapped = False
    for place, name in enumerate(values.members()):
        wrapped = wrapped or (place == 0 and name in ("meta", "logs"))
        if not wrapped:
            yield name
        elif name == "logs":
            yield from values.members()
        else:
            values.skip()


def setup(stem: str) -> tuple[str, str]:
    """Return the set-up and the agent from a file name."""
    match = _MULTITURN.fullmatch(stem)
    if match:
        handicap = ", handicap" if match["handicap"] else ""
        return f"multiturn {match['model']}, {match['turns']} turns{handicap}", match["model"]
    name = _PREFIX.sub("", stem).replace("_", " ")
    return name, name


def episode(key: str, run: dict[str, Any], origin: Origin) -> Episode:
    """Return the episode of one run."""
    first, agent = setup(origin.stem)
    history = run["turn_history"]
    steps = list(_steps(history))
    kinds = dict.fromkeys(step.action_type for step in steps)
    kinds.pop(first, None)
    reward = float(run["summary"]["max_reward"])
    extra = {name: value for name, value in run.items() if name not in _KNOWN}
    extra.pop("info", None)  # prompts of the run: hundreds of kB without information on the task
    return Episode(
        task=run["query"],
        task_key=str(run["task_id"]),
        task_type=run.get("environment"),
        agent=origin.agent or agent,
        strategy=[first, *kinds],
        success=reward >= 1,
        reward=reward,
        steps=tuple(steps),
        source_key=f"{origin.stem}/{key}",
        source="intercode",
        extra=extra,
    )


def kind(action: str) -> str:
    """Return the kind of a statement: its verb in capitals, or ``(no SQL)``.

    Wrappers (``execute[...]``, code fences) are removed first; DESC counts as DESCRIBE.
    """
    match = _WORD.match(_WRAPPED.sub("", action))
    word = match[0].upper() if match else ""
    if word in VERBS:
        return VERBS.get(word) or word
    return "(no SQL)"


def _steps(history: dict[str, Any]) -> Iterator[Step]:
    columns = ("observations", "rewards", "valid_action", "thoughts")
    beside = zip_longest(*(history.get(name) or () for name in columns))
    nothing = repeat((None,) * len(columns))
    for action, (observation, reward, valid, thought) in zip(
        history["actions"], chain(beside, nothing), strict=False
    ):
        text = action if isinstance(action, str) else canonical_json(action)
        seen = observation if isinstance(observation, str) else canonical_json(observation)
        done: dict[str, Any] = {"statement": text}
        if valid is not None:
            done["valid"] = valid
        if thought is not None:
            done["thought"] = thought
        yield Step(
            action_type=kind(text),
            action=done,
            observation=None if observation is None else seen[:MAX_TEXT],
            reward=None if reward is None else float(reward),
            error=seen if seen.startswith(ERROR) else None,
        )


FORMAT = Format("intercode", "InterCode SQL results: a JSON object of runs", detect, read)
