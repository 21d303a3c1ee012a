"""The tools: each calls one method of the memory and shapes what it returns."""

from __future__ import annotations

import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Annotated, Literal, TypeVar

from mcp.server.mcpserver.exceptions import ToolError
from pydantic import Field, JsonValue

from graphmem import __version__
from graphmem.errors import ValidationError
from graphmem.integrations.mcp import answers
from graphmem.integrations.mcp.answers import (
    ASIDE,
    MOST,
    cut_lines,
    describe_rest,
    fitting,
    sentences,
    shorten,
    suggest_limit,
)
from graphmem.lessons.prompt import SECTIONS
from graphmem.memory import Memory
from graphmem.models import Step
from graphmem.models.choices import Choice, Considered, Explore
from graphmem.models.lessons import AntiPattern
from graphmem.models.recall import RecallItem
from graphmem.text.tokens import count_tokens

Task = Annotated[str, Field(description="The task in words, or its key.")]
Agent = Annotated[
    str | None,
    Field(description="Name of the agent, whose access rights apply. Leave it out if in doubt."),
]
Tokens = Annotated[int, Field(ge=200, le=MOST, description="Most tokens of the answer.")]
Limit = Annotated[int, Field(ge=1, le=100, description="Most of them.")]
Lens = Annotated[
    str | None,
    Field(description="Also what this lens of the memory's levels shows, as `planning`."),
]
TaskType = Annotated[str | None, Field(description="A class of tasks, for instance `refund`.")]

PAGE = 20
"""Strategies on a page."""
_SENTENCE = 30
"""Tokens kept for the sentence on what was left out."""
_NUMBERS = 40
"""Tokens of the counts and bounds of an explanation."""
_CHOICES = 1_000
"""Choices that can still be learned by their names; the oldest go first."""


Kind = Literal["read", "write", "erase"]
"""What a tool does to the memory."""
F = TypeVar("F", bound=Callable[..., object])


def tool(kind: Kind, title: str) -> Callable[[F], F]:
    """Mark a method as a tool, with what it does to the memory, and its title."""

    def mark(method: F) -> F:
        vars(method).update(kind=kind, title=title)
        return method

    return mark


class Tools:
    """The tools of one server, and its memory.

    The memory is opened at its first use; if that fails, again at the next one.

    Args:
        opener: opens the memory.
        read_only: leave out the tools that write.
        agent: the agent that the server speaks for; None: any.
    """

    def __init__(
        self, opener: Callable[[], Memory], *, read_only: bool = False, agent: str | None = None
    ) -> None:
        self._opener = opener
        self._read_only = read_only
        self._speaks_for = agent
        self._opened: Memory | None = None
        self._choices: OrderedDict[str, Choice] = OrderedDict()
        self._lock = threading.Lock()

    @property
    def memory(self) -> Memory:
        """The memory.

        Raises:
            GraphMemError: it cannot be opened.
        """
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

    def _agent(self, name: str | None) -> str | None:
        """Return the agent to act for: the one that the server speaks for, else the given one."""
        if self._speaks_for is not None and name not in {None, self._speaks_for}:
            raise ValidationError(
                "agent", name, f"this server speaks for {self._speaks_for}", "leave the agent out"
            )
        return self._speaks_for or name

    def select(self, *, admin: bool, levels: bool) -> list[Callable[..., object]]:
        """Return the tools that a server has."""
        kinds = {"read"} | ({"write"} if not self._read_only else set())
        kinds |= {"erase"} if admin and not self._read_only else set()
        return [
            getattr(self, name)
            for name, method in vars(Tools).items()
            if getattr(method, "kind", None) in kinds
            and (levels or not name.startswith("graphmem_levels"))
        ]

    @tool("read", "Recall what worked")
    def graphmem_recall(
        self, task: Task, limit: Limit = 5, agent: Agent = None, max_tokens: Tokens = 2_000
    ) -> answers.Recalled:
        """Find what worked on tasks like this, and what to avoid. Call it before you act.

        Each strategy comes with its counts, the expected success rate here, and the ids of episodes
        behind it. An empty answer means that nothing like this task is known.
        """
        found = self.memory.recall(task, limit, self._agent(agent))
        items, warnings = [*map(_item, found.items)], [*map(_warn, found.warnings)]
        # A warning is worth more than the fourth strategy that works.
        first: list[answers.Item | answers.Warn] = [*items[:3], *warnings[:1]]
        kept = fitting([*first, *items[3:], *warnings[1:]], max_tokens)
        full = sum(item.kind == "strategy" for item in items) == limit
        return answers.Recalled(
            items=tuple(row for row in kept.rows if isinstance(row, answers.Item)),
            warnings=tuple(row for row in kept.rows if isinstance(row, answers.Warn)),
            task_type=found.task_type,
            more=sentences(
                kept.more("item", "graphmem_recall"),
                suggest_limit(limit, "graphmem_recall") if full else None,
            ),
        )

    @tool("read", "Context for a system prompt")
    def graphmem_context(
        self, task: Task, max_tokens: Tokens = 300, agent: Agent = None, lens: Lens = None
    ) -> answers.Prompt:
        """Get what is known of a task, as a short text for a system prompt.

        It has rules, what works, what fails and what to do instead. It fills the tokens with the
        most valuable lines; more tokens give more lines.
        """
        lines: list[str] = []
        tokens = ASIDE

        def count(text: str) -> int:
            nonlocal tokens
            needed = count_tokens(text)
            if text.endswith("\n"):  # a line; the text itself is counted, too
                lines.append(text[:-1])
                tokens += needed
            return needed

        text = self.memory.context(
            task,
            max_tokens=max_tokens - _SENTENCE,
            agent=self._agent(agent),
            count=count,
            lens=lens,
        )
        headings = {section.heading for section in SECTIONS}
        left = sum(line not in headings and line not in text for line in lines)
        return answers.Prompt(
            context=text, more=describe_rest(left, "line", "graphmem_context", tokens)
        )

    @tool("read", "Choose what to try")
    def graphmem_choose(
        self,
        task: Task,
        candidates: Annotated[
            list[str] | None,
            Field(description="What could be done, in words. Left out: what the memory knows."),
        ] = None,
        agent: Agent = None,
        task_type: TaskType = None,
        explore: Annotated[
            Explore,
            Field(description="How to choose. thompson: mostly the best, at times another."),
        ] = "thompson",
        max_tokens: Tokens = 2_000,
    ) -> answers.Chosen:
        """Choose what to try now: mostly what works, at times what may work better.

        Nothing is stored. When you know how it went, call graphmem_learn with the `choice` of the
        answer, if there is one.
        """
        choice = self.memory.choose(
            task,
            candidates,
            agent=self._agent(agent),
            task_type=task_type,
            explore=explore,
        )
        rows = map(_candidate, (choice, *choice.others))
        kept = fitting(rows, max_tokens)
        return answers.Chosen(
            choice=None if self._read_only else self._keep(choice),
            strategy=kept.rows[0],
            others=kept.rows[1:],
            more=kept.more("candidate", "graphmem_choose"),
        )

    @tool("read", "Explain a belief")
    def graphmem_explain(
        self,
        item: Annotated[
            str, Field(description="Id of anything that the memory returned, or its text.")
        ],
        task: Annotated[
            str | None, Field(description="Also say what is expected on this task, and why.")
        ] = None,
        agent: Agent = None,
        max_tokens: Tokens = 2_000,
    ) -> answers.Explained:
        """See why the memory believes something: counts, dates, episodes for and against."""
        found = self.memory.explain(item, task=task, agent=self._agent(agent))
        shown = shorten(found.text, 100)
        beside = _NUMBERS + count_tokens(shown)
        text, more = cut_lines(found.to_text(), max_tokens, "graphmem_explain", beside)
        return answers.Explained(
            id=found.id,
            kind=found.kind,
            text=shown,
            trials=found.why.trials,
            successes=found.why.successes,
            lower=found.why.lower,
            upper=found.why.upper,
            status=found.why.status,
            explanation=text,
            more=more,
        )

    @tool("read", "Episodes behind a strategy")
    def graphmem_evidence(
        self,
        strategy: Annotated[str, Field(description="Text or id of a strategy.")],
        limit: Limit = 5,
        agent: Agent = None,
        max_tokens: Tokens = 2_000,
    ) -> answers.Episodes:
        """Get the latest episodes in which a strategy was applied, and how each ended."""
        found = self.memory.evidence(strategy, limit=limit + 1, agent=self._agent(agent))
        rows = [
            answers.EpisodeRow(
                id=row.id,
                task=row.task,
                agent=row.agent,
                at=None if row.at is None else row.at.isoformat(),
                score=row.score,
                success=row.success,
                error=row.error,
            )
            for row in found[:limit]
        ]
        kept = fitting(rows, max_tokens)
        return answers.Episodes(
            episodes=kept.rows,
            more=sentences(
                kept.more("episode", "graphmem_evidence"),
                suggest_limit(limit, "graphmem_evidence") if len(found) > limit else None,
            ),
        )

    @tool("read", "List strategies")
    def graphmem_strategies(
        self,
        task: Annotated[
            str | None, Field(description="Only on this task: its key or its wording.")
        ] = None,
        task_type: TaskType = None,
        cursor: Annotated[
            str | None, Field(description="The next_cursor of the page before.")
        ] = None,
        max_tokens: Tokens = 2_000,
    ) -> answers.Page:
        """List strategies with their counts, the surest first, a page at a time."""
        start = _start(cursor)
        found = self.memory.strategies(
            task, task_type=task_type, agent=self._agent(None), limit=start + PAGE + 1
        )[start:]
        rows = [answers.Ranked.model_validate(row, from_attributes=True) for row in found[:PAGE]]
        kept = fitting(rows, max_tokens)
        follows = len(found) > len(kept.rows)
        after = str(start + len(kept.rows)) if follows else None
        return answers.Page(
            strategies=kept.rows,
            next_cursor=after,
            more=f"There are more; ask graphmem_strategies with cursor={after}."
            if follows
            else None,
        )

    @tool("read", "State of the memory")
    def graphmem_status(self) -> answers.State:
        """See which memory this is, and how much it holds."""
        memory = self.memory
        stats = memory.stats()
        return answers.State(
            url=stats.url,
            engine=stats.engine,
            namespace=stats.namespace,
            agent=self._agent(None),
            read_only=self._read_only,
            episodes=stats.episodes,
            tasks=stats.tasks,
            strategies=stats.strategies,
            version=__version__,
        )

    def _find_choice(self, name: str) -> Choice:
        with self._lock:
            choice = self._choices.get(name)
        if choice is None:
            raise ToolError(
                f"choice: there is no choice {name!r} (the server forgets them when it ends); give "
                "`strategy` instead"
            )
        return choice

    def _keep(self, choice: Choice) -> str:
        name = secrets.token_hex(4)
        with self._lock:
            self._choices[name] = choice
            if len(self._choices) > _CHOICES:
                self._choices.popitem(last=False)
        return name

    @tool("write", "Learn an outcome")
    def graphmem_learn(
        self,
        task: Task,
        strategy: Annotated[
            str | list[str] | None,
            Field(description="What was done, in words that fit the next time too; or several."),
        ] = None,
        choice: Annotated[
            str | None, Field(description="Instead of a strategy: `choice` of graphmem_choose.")
        ] = None,
        success: Annotated[bool | None, Field(description="Whether the task was solved.")] = None,
        score: Annotated[
            float | None, Field(ge=0, le=1, description="How well, if that is known.")
        ] = None,
        error: Annotated[str | None, Field(description="What went wrong, as it was told.")] = None,
        summary: Annotated[str | None, Field(description="What happened, in a sentence.")] = None,
        feedback: Annotated[str | None, Field(description="What the user said of it.")] = None,
        successes: Annotated[
            list[str] | None, Field(description="Single things that went well.")
        ] = None,
        mistakes: Annotated[
            list[str] | None, Field(description="Single things that went wrong.")
        ] = None,
        agent: Agent = None,
        task_type: TaskType = None,
        source_key: Annotated[
            str | None,
            Field(description="A key of this attempt: with it, learning it again changes nothing."),
        ] = None,
        steps: Annotated[
            list[Step] | None, Field(description="What was done, one step after another.")
        ] = None,
    ) -> answers.Learnt:
        """Store how an attempt went. Call it after each task, whether it worked or not.

        Give success or score, as the user or a test said; don't guess.
        """
        used: str | list[str] | Choice
        if choice is not None and strategy is None:
            used = self._find_choice(choice)
        elif strategy is not None and choice is None:
            used = strategy
        else:
            raise ToolError("strategy: give either a strategy or a choice of graphmem_choose")
        learned = self.memory.learn(
            task,
            used,
            success=success,
            score=score,
            error=error,
            summary=summary,
            feedback=feedback,
            successes=successes or (),
            mistakes=mistakes or (),
            agent=self._agent(agent) or "default",
            task_type=task_type,
            source_key=source_key,
            steps=steps or (),
            source="mcp",
        )
        return answers.Learnt(episode_id=learned.episode_id, created=learned.created)

    @tool("erase", "Erase for good")
    def graphmem_erase(
        self,
        episode_id: Annotated[str | None, Field(description="Id of an episode.")] = None,
        agent: Annotated[str | None, Field(description="Everything of this agent.")] = None,
        user: Annotated[str | None, Field(description="Everything of this user.")] = None,
    ) -> answers.Erased:
        """Erase an episode, an agent or a user for good, as if it had never been. Give one."""
        report = self.memory.upkeep.erase(episode_id, agent=agent, user=user)
        return answers.Erased(episodes=report.episodes, strategies_and_more=report.removed)

    @tool("read", "Recall from levels")
    def graphmem_levels_recall(
        self,
        text: Annotated[str | None, Field(description="What it is about, in words.")] = None,
        levels: Annotated[
            list[str] | None, Field(description="Names of levels. Left out: all.")
        ] = None,
        limit: Limit = 10,
        agent: Agent = None,
        max_tokens: Tokens = 2_000,
    ) -> answers.Entries:
        """Find what levels hold now: observations, plans, findings."""
        found = self.memory.levels.recall(
            text, levels=levels, limit=limit, agent=self._agent(agent)
        )
        rows = [answers.Held.model_validate(row, from_attributes=True) for row in found]
        kept = fitting(rows, max_tokens)
        return answers.Entries(
            entries=kept.rows,
            more=sentences(
                kept.more("entries", "graphmem_levels_recall"),
                suggest_limit(limit, "graphmem_levels_recall") if len(rows) == limit else None,
            ),
        )

    @tool("read", "Map of levels")
    def graphmem_levels_map(self, agent: Agent = None, max_tokens: Tokens = 500) -> answers.Map:
        """See which levels there are, what is in them, and what flows where."""
        found = self.memory.levels.map(self._agent(agent))
        whole, tree = found.tree(MOST), found.tree(max(50, max_tokens - ASIDE))
        left = len(whole.splitlines()) - len(tree.splitlines()) + 1
        needed = ASIDE + count_tokens(whole)
        more = describe_rest(left, "line", "graphmem_levels_map", needed) if tree != whole else None
        return answers.Map(tree=tree, more=more)

    @tool("write", "Add to a level")
    def graphmem_levels_add(
        self,
        level: Annotated[str, Field(description="Name of a level, as agent:ada:working.")],
        content: Annotated[JsonValue, Field(description="A text, or any JSON.")],
        tags: Annotated[list[str] | None, Field(description="Tags, as kind:plan.")] = None,
        key: Annotated[
            str | None, Field(description="A level has one entry under a key: it is replaced.")
        ] = None,
        ttl: Annotated[float | None, Field(gt=0, description="Seconds until it ends.")] = None,
        agent: Agent = None,
    ) -> answers.Put:
        """Put an entry into a level."""
        added = self.memory.levels.add(
            level, content, tags=tags or (), key=key, ttl=ttl, agent=self._agent(agent)
        )
        return answers.Put(entry_id=added.id, created=added.created)


def _item(item: RecallItem) -> answers.Item:
    return answers.Item(
        id=item.id,
        kind=item.kind,
        text=item.text,
        expected=item.mean,
        said=item.said,
        episodes=item.evidence[: answers.EPISODES],
    )


def _warn(warning: AntiPattern) -> answers.Warn:
    better = warning.better_alternative
    return answers.Warn(
        id=warning.id,
        strategy=warning.strategy,
        error=warning.error_class,
        failures=warning.occurrences,
        trials=warning.occurrences + warning.successes,
        instead=None if better is None else better.strategy,
    )


def _candidate(one: Considered) -> answers.Candidate:
    return answers.Candidate(
        text=one.text,
        expected=one.probability,
        low=one.low,
        high=one.high,
        propensity=one.propensity,
        why=one.why,
    )


def _start(cursor: str | None) -> int:
    if cursor is None:
        return 0
    if not (cursor.isascii() and cursor.isdigit() and len(cursor) < 10):
        raise ToolError(f"cursor: {cursor[:40]!r} is none; take next_cursor of the page before")
    return int(cursor)
