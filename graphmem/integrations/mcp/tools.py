"""The tools: each calls one method of the memory and shapes what it returns.

An answer has fields for programs, and the same as text for a model. Each form stays within a number
of tokens; ``more`` says what was left out, and how to get it. In the text, a fence that episodes
cannot close surrounds everything that they hold.
"""

from __future__ import annotations

import inspect
import json
import secrets
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import wraps
from itertools import accumulate
from typing import Annotated, Any, Literal, TypeVar, get_args

from mcp.server.mcpserver.exceptions import ToolError
from pydantic import BaseModel, Field, JsonValue

from graphmem.errors import ValidationError
from graphmem.ids import canonical_json
from graphmem.lessons.prompt import PREAMBLE, SECTIONS
from graphmem.memory import Memory
from graphmem.models.advice import Choice, Explore
from graphmem.models.episodes import Step
from graphmem.models.fields import Output
from graphmem.models.lessons import AntiPattern
from graphmem.models.levels import Added
from graphmem.models.reports import EraseReport, Learned, Settled, Stats
from graphmem.printable import counted
from graphmem.text.fencing import CLOSE, ELLIPSIS, OPEN, fenced, masked
from graphmem.text.tokens import count_tokens

Row = dict[str, Any]
SHOWN = 300  # characters of one text for a model
ASIDE = 120
"""Tokens kept for the fence, for the sentence on what was left out, and for names of fields."""
_SPARE = 20
"""Tokens by which the same answer can be longer the next time, for instance of a new choice."""
MOST = 100_000  # tokens that can be asked for


class Answer(Output):
    """An answer: ``more`` says what was left out, and how to get it."""

    more: str | None = None

    def __str__(self) -> str:
        lines = self._lines()  # what is inside the fence
        text = "\n".join((PREAMBLE, OPEN, *lines, CLOSE)) if lines else "Nothing is known of this."
        return text if self.more is None else f"{text}\n{self.more}"

    def _lines(self) -> list[str]:
        raise NotImplementedError


class Text(Answer):
    """A text whose lines hold fenced texts."""

    text: str

    def _lines(self) -> list[str]:
        return self.text.splitlines()


class Prompt(Text):
    """What is known of a task, as text for a system prompt; "" if nothing is."""

    def __str__(self) -> str:
        return self.text or super().__str__()


class Rows(Answer):
    """A list, the best or latest first; rates are in [0, 1], ``id`` is for other tools."""

    rows: tuple[Row, ...] = ()

    def _lines(self) -> list[str]:
        return [*map(describe_row, self.rows)]


class Choices(Rows):
    """The strategy to try now, then the other candidates.

    ``choice`` is its name for graphmem_learn, for when you know how it went; null if the server
    does not learn.
    """

    choice: str | None = Field(description="Give this to graphmem_learn as `choice`.")

    def __str__(self) -> str:
        if self.choice is None:
            return super().__str__()
        return (
            f"{super().__str__()}\nTake the first. When it is done, call graphmem_learn with the "
            f"same task, choice={self.choice}, and success or score."
        )


def row_of(model: BaseModel, *names: str, **more: Any) -> Row:
    """Return a row with fields of a model, its numbers with their meaningful digits only."""
    known = model.model_dump(mode="json", include={*names, "id"})
    fields = masked({name: known[name] for name in (*names, "id")} | more)
    return {
        name: round(value, 4) if isinstance(value, float) else value
        for name, value in fields.items()
    }


def describe_row(row: Row) -> str:
    """Return a row as a line; its texts are fenced."""
    fields = [
        (name, fenced(value if isinstance(value, str) else canonical_json(value), SHOWN))
        for name, value in row.items()
        if name not in ("id", "kind", "evidence") and value not in (None, "", [])
    ]
    (_, first), *others = fields
    kind = f"{row['kind']}: " if "kind" in row else ""
    about = ", ".join(f"{name} {text}" for name, text in others)
    return f"- {kind}{first} ({about}) [{row['id']}]"


def fit(
    rows: Iterable[Row], max_tokens: int, tool: str, limit: int | None = None
) -> dict[str, Any]:
    """Return the first rows that fit a number of tokens in both forms, and what was left out.

    The first row is always there, with its texts cut if necessary: an answer that says only "too
    long" helps nobody. With as many rows as the limit, there can be more.
    """
    rows = tuple(rows)
    costs = [count_tokens(canonical_json(row)) for row in rows]
    kept = _first(costs, max_tokens - ASIDE)
    more = describe_rest(len(rows) - kept, "row", tool, sum(costs))
    if rows and not kept:
        return {"rows": (_shorten_row(rows[0], max_tokens - ASIDE),), "more": more}
    if limit is not None and limit <= len(rows) and limit < 100:
        beyond = f"There can be more; ask {tool} with limit={min(2 * limit, 100)}."
        more = f"{more} {beyond}" if more else beyond
    return {"rows": rows[:kept], "more": more}


def fit_lines(text: str, max_tokens: int, tool: str) -> dict[str, Any]:
    """Return the first lines of a text that fit, and what was left out."""
    lines, tokens = text.splitlines(), max_tokens - ASIDE
    costs = [  # in JSON
        count_tokens(line) + line.count('"') + line.count("\\") + 1 for line in lines
    ]
    kept = _first(costs, tokens)
    part = "\n".join(lines[:kept]) if kept else text[: max(4 * tokens, 20)] + ELLIPSIS
    return {"text": part, "more": describe_rest(len(lines) - kept, "line", tool, sum(costs))}


def describe_rest(left: int, what: str, tool: str, tokens: int) -> str | None:
    """Return a sentence on what was left out, and how to get it, or None."""
    if not left:
        return None
    enough = min(-(-(ASIDE + tokens + _SPARE) // 100) * 100, MOST)
    asked = f"ask {tool} with max_tokens={enough}"
    return f"{counted(left, what)} cut or left out; for all, {asked}."


def _first(costs: list[int], tokens: int) -> int:
    return sum(total <= tokens for total in accumulate(costs))


def _shorten_row(row: Row, tokens: int) -> Row:
    """Return a row without lists, and with texts that fit for sure."""
    names = [name for name, value in row.items() if isinstance(value, str | dict) and name != "id"]
    limit = max(tokens // (2 * len(names)), 20)
    short = {name: value for name, value in row.items() if not isinstance(value, list)}
    for name in names:
        text = row[name] if isinstance(row[name], str) else canonical_json(row[name])
        short[name] = text if len(text) <= limit else text[: limit - 1] + ELLIPSIS
    return short


Texts = list[str] | None
PARAMETERS: dict[str, tuple[Any, str]] = {
    "agent": (
        str | None,
        "Name of the agent, whose access rights apply. Leave it out if in doubt.",
    ),
    "candidates": (Texts, "What could be done, in words. Left out: what the memory knows."),
    "choice": (str | None, "Instead of a strategy: `choice` of graphmem_choose."),
    "content": (JsonValue, "A text, or any JSON."),
    "episode": (str, "Its id or source key, or of an attempt."),
    "episode_id": (str | None, "Id of an episode."),
    "error": (str | None, "What went wrong, as it was told."),
    "explore": (Explore, "How to choose. thompson: mostly the best, at times another."),
    "feedback": (str | None, "What the user said of it."),
    "item": (str, "Id of anything that it returned, or its text."),
    "key": (str | None, "An entry under it is replaced."),
    "lens": (str | None, "Also what this lens of the memory's levels shows, as `planning`."),
    "level": (str, "Name of a level, as agent:ada:working."),
    "levels": (Texts, "Names. Left out: all."),
    "limit": (Annotated[int, Field(ge=1, le=100)], "Most of them."),
    "max_tokens": (Annotated[int, Field(ge=200, le=MOST)], "Most tokens of the answer."),
    "mistakes": (Texts, "Things that went wrong."),
    "score": (Annotated[float, Field(ge=0, le=1)] | None, "How well, if that is known."),
    "source_key": (str | None, "A key of this attempt: learning it again changes nothing."),
    "steps": (list[Step] | None, "What was done, in order."),
    "strategy": (str | Texts, "What was done, in words that fit the next time too; or several."),
    "success": (bool | None, "Whether the task was solved."),
    "successes": (Texts, "Things that went well."),
    "summary": (str | None, "What happened, in a sentence."),
    "tags": (Texts, "Tags, as kind:plan."),
    "task": (str, "The task in words, or its key."),
    "task_type": (str | None, "A class of tasks, for instance `refund`."),
    "text": (str | None, "What it is about, in words."),
    "ttl": (Annotated[float, Field(gt=0)] | None, "Seconds until it ends."),
    "user": (str | None, "Name of the user for whom this is, if you know it."),
}
"""The parameters of tools: what they take, and what they are."""
_KEYWORD = inspect.Parameter.KEYWORD_ONLY
_SENTENCE = 30  # tokens kept for the sentence on what was left out
_CHOICES = 1_000  # choices that can still be learned by their names; the oldest go first
T = TypeVar("T")


@dataclass(frozen=True)
class Access:
    """What a server may do."""

    agent: str | None = None  # the agent that it speaks for; None: any
    read_only: bool = False
    admin: bool = False  # whether it has the tool that erases
    levels: bool = False

    def __post_init__(self) -> None:
        if self.read_only and self.admin:
            raise ValidationError(
                "admin", True, "a server that only reads cannot erase", "give one of the two"
            )


def tool(
    kind: Literal["read", "write", "erase"], title: str, *names: str, **defaults: Any
) -> Callable[[Callable[..., T]], Callable[..., T]]:
    """Mark a method as a tool: what it does to the memory, its title, and its parameters.

    Parameters that can be None are None by default. A method that does not erase gets the agent to
    act for.
    """

    def mark(method: Callable[..., T]) -> Callable[..., T]:
        parameters = []
        for name in (*names, *defaults):
            annotation, description = PARAMETERS[name]
            optional = type(None) in get_args(annotation)
            default = defaults.get(name, None if optional else inspect.Parameter.empty)
            annotation = annotation | None if default is None else annotation
            described = Annotated[annotation, Field(description=description)]  # type: ignore[valid-type]
            parameters.append(
                inspect.Parameter(name, _KEYWORD, default=default, annotation=described)
            )

        @wraps(method)
        def call(self: Tools, **given: Any) -> T:
            if "agent" in given and kind != "erase":  # which must not take its own for all of it
                given["agent"] = self._agent(given["agent"])
            return method(self, **given)

        vars(call).update(kind=kind, title=title, parameters=parameters)
        return call

    return mark


class Tools:
    """The tools of one server, and its memory, which is opened at its first use."""

    def __init__(self, opener: Callable[[], Memory], access: Access) -> None:
        self._opener = opener
        self._access = access
        self._opened: Memory | None = None
        self._choices: dict[str, Choice] = {}
        self._lock = threading.Lock()

    @property
    def memory(self) -> Memory:
        """The memory."""
        with self._lock:
            if self._opened is None:
                self._opened = self._opener()
            return self._opened

    def close(self) -> None:
        """Close the memory, if it was opened."""
        with self._lock:
            memory, self._opened = self._opened, None
        if memory is not None:
            memory.close()

    def select(self) -> list[Callable[..., object]]:
        """Return the tools that the server has."""
        may = self._access
        kinds = {"read", *(() if may.read_only else ["write"]), *(["erase"] if may.admin else ())}
        return [
            getattr(self, name)
            for name, method in vars(Tools).items()
            if getattr(method, "kind", None) in kinds
            and (may.levels or not name.startswith("graphmem_levels"))
        ]

    def _agent(self, name: str | None = None) -> str | None:
        """Return the agent to act for: the one that the server speaks for, else the given one."""
        own = self._access.agent
        if own is not None and name not in {None, own}:
            raise ValidationError(
                "agent", name, f"this server speaks for {own}", "leave the agent out"
            )
        return own or name

    @tool("read", "Recall what worked", "task", "agent", "user", limit=5, max_tokens=2_000)
    def graphmem_recall(self, task: str, limit: int, max_tokens: int, **who: Any) -> Rows:
        """Find what worked on tasks like this, and what to avoid. Call it before you act.

        Each strategy comes with its counts, the expected success rate here, and the ids of episodes
        behind it. Facts near the task, and what the user prefers, are there too. An empty answer
        means that nothing like this task is known.
        """
        recalled = self.memory.recall(task, limit, **who)
        items = [
            row_of(item, "kind", "text", "said", "mean", evidence=[*item.evidence[:3]])
            for item in recalled.items
        ]
        warnings = [*map(_warn, recalled.warnings)]
        names = ("kind", "text", "about", "source", "at", "contradicted_by", "may_be_replaced_by")
        facts = [row_of(one, *names) for one in recalled.facts]
        # A warning or a fact is worth more than the fourth strategy that works.
        rows = [*items[:3], *warnings[:1], *facts, *items[3:], *warnings[1:]]
        full = sum(item["kind"] == "strategy" for item in items) == limit
        return Rows(**fit(rows, max_tokens, "graphmem_recall", limit if full else None))

    @tool("read", "Context for a system prompt", "task", "agent", "user", "lens", max_tokens=300)
    def graphmem_context(self, task: str, max_tokens: int, **what: Any) -> Prompt:
        """Get what is known of a task, as a short text for a system prompt.

        It has rules, what works, what fails and what to do instead. It fills the tokens with the
        most valuable lines; more tokens give more lines.
        """
        lines: dict[str, int] = {}

        def count(text: str) -> int:
            tokens = count_tokens(json.dumps(text, ensure_ascii=False))
            if text.endswith("\n"):  # a line; the text itself is counted, too
                lines[text[:-1]] = tokens
            return tokens

        text = self.memory.context(task, count=count, max_tokens=max_tokens - _SENTENCE, **what)
        headings = {section.heading for section in SECTIONS}
        left = sum(line not in headings and line not in text for line in lines)
        more = describe_rest(left, "line", "graphmem_context", sum(lines.values()))
        return Prompt(text=text, more=more)

    @tool(
        *("read", "Choose what to try", "task", "candidates", "agent", "task_type"),
        explore="thompson",
        max_tokens=2_000,
    )
    def graphmem_choose(self, task: str, candidates: Texts, max_tokens: int, **how: Any) -> Choices:
        """Choose what to try now: mostly what works, at times what may work better.

        Nothing is stored. When you know how it went, call graphmem_learn with the `choice` of the
        answer, if there is one.
        """
        choice = self.memory.choose(task, candidates, **how)
        names = ("text", "why", "probability", "low", "high", "propensity")
        rows = (row_of(one, *names) for one in (choice, *choice.others))
        name = None if self._access.read_only else secrets.token_hex(4)
        if name is not None:
            with self._lock:
                self._choices[name] = choice
                if len(self._choices) > _CHOICES:
                    del self._choices[next(iter(self._choices))]
        return Choices(choice=name, **fit(rows, max_tokens, "graphmem_choose"))

    @tool("read", "Explain a belief", "item", "agent", task=None, max_tokens=2_000)
    def graphmem_explain(self, item: str, max_tokens: int, **how: Any) -> Text:
        """See why the memory believes something: counts, dates, episodes for and against.

        With a task: also what to expect there, and why.
        """
        text = str(self.memory.explain(item, **how))
        return Text(**fit_lines(text, max_tokens, "graphmem_explain"))

    @tool("read", "List strategies", "task_type", task=None, limit=20, max_tokens=2_000)
    def graphmem_strategies(self, limit: int, max_tokens: int, **where: Any) -> Rows:
        """List strategies with their counts, the surest now first; with a task only those of it."""
        names = ("text", "successes", "trials", "lower", "upper")
        rows = [
            row_of(one, *names, **({"changed": one.change.said} if one.change else {}))
            for one in self.memory.strategies(**where, agent=self._agent(), limit=limit)
        ]
        return Rows(**fit(rows, max_tokens, "graphmem_strategies", limit))

    @tool("read", "State of the memory")
    def graphmem_status(self) -> Stats:
        """See which memory this is, and how much it holds."""
        return self.memory.stats()

    @tool(
        *("write", "Learn an outcome", "task", "strategy", "choice", "success", "score", "error"),
        *("summary", "feedback", "successes", "mistakes", "agent", "user", "task_type"),
        *("source_key", "steps"),
    )
    def graphmem_learn(
        self, task: str, strategy: str | Texts, choice: str | None, **told: Any
    ) -> Learned:
        """Store how an attempt went. Call it after each task, whether it worked or not.

        Give success or score, as the user or a test said; don't guess.
        """
        if (choice is None) == (strategy is None):
            raise ToolError("strategy: give either a strategy or a choice of graphmem_choose")
        used = strategy if choice is None else self._choices.get(choice)
        if used is None:
            raise ToolError(
                f"choice: there is no choice {choice!r} (the server forgets them when it ends); "
                "give `strategy` instead"
            )
        known = {name: value for name, value in told.items() if value is not None}
        known["agent"] = known.get("agent") or "default"
        return self.memory.learn(task, used, **known, source="mcp")

    @tool("write", "Settle an episode", "episode", "success", "score", "error")
    def graphmem_settle(self, episode: str, **outcome: Any) -> Settled:
        """Correct the outcome of an episode when the user or a test tells it later.

        It replaces what was learned. Give success or score, as it was said; don't guess.
        """
        return self.memory.settle(episode, **outcome, agent=self._agent())

    @tool("erase", "Erase for good", "episode_id", "agent", "user")
    def graphmem_erase(
        self, episode_id: str | None, agent: str | None, user: str | None
    ) -> EraseReport:
        """Erase an episode, all of an agent or all of a user for good. Give one of these."""
        own = self._access.agent
        if user is not None and own is not None:
            problem = f"this server speaks for {own}, to whom no user belongs"
            raise ValidationError("user", user, problem, "give an episode or the agent")
        name = self._agent(agent)
        whose = agent if episode_id is None else name
        return self.memory.upkeep.erase(episode_id, agent=whose, user=user)

    @tool(*("read", "Recall from levels", "text", "levels", "agent"), limit=10, max_tokens=2_000)
    def graphmem_levels_recall(self, limit: int, max_tokens: int, **what: Any) -> Rows:
        """Find what levels hold now: observations, plans, findings."""
        found = self.memory.levels.recall(**what, limit=limit)
        rows = [row_of(one, "content", "level", "key", "tags") for one in found]
        return Rows(**fit(rows, max_tokens, "graphmem_levels_recall", limit))

    @tool("read", "Map of levels", "agent", max_tokens=500)
    def graphmem_levels_map(self, agent: str | None, max_tokens: int) -> Text:
        """See which levels there are, what is in them, and what flows where."""
        text = str(self.memory.levels.map(agent))
        return Text(**fit_lines(text, max_tokens, "graphmem_levels_map"))

    @tool("write", "Add to a level", "level", "content", "tags", "key", "ttl", "agent")
    def graphmem_levels_add(self, level: str, content: JsonValue, tags: Texts, **how: Any) -> Added:
        """Put an entry into a level."""
        return self.memory.levels.add(level, content, tags=tags or (), **how)


def _warn(warning: AntiPattern) -> Row:
    better = warning.better_alternative
    return {
        "kind": "avoid",
        "strategy": warning.strategy,
        "fails": warning.sentence,
        "instead": None if better is None else better.strategy,
        "id": warning.id,
    }
