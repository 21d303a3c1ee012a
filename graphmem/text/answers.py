"""Answers in words: a map of levels, an explanation, what an estimate rests on.

The answers are models of ``graphmem.models``, which print themselves with these functions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from graphmem.printable import counted, percent, short
from graphmem.text.cells import cell, name_field
from graphmem.text.fencing import fenced

_TEXT = 100  # most characters of one text of an episode in explanations
_LINE = 1_000  # characters of a sentence on what an estimate rests on
_WORDING = 60  # characters of the wording of a task beside its key
_NEAREST = 8  # most similar tasks or strategies that a sentence names
_FEWEST = 20  # fewest episodes of which a verdict is given
BASELINES = {
    "global": "rate of all",
    "task": "rate of the task",
    "strategy": "rate of the strategy",
    "cell": "rate of the strategy on the task",
}
_REMEDIES = {
    "global": "strategies and tasks tell little here: name fewer strategies, each a choice that "
    "comes back, or learn more episodes",
    "task": "the strategy tells little here: name fewer strategies, each a choice that comes back",
    "strategy": "tasks that look alike mislead here: set relevance_floor higher, or give tasks a "
    "type",
    "cell": "what is known from other tasks misleads here: set relevance_floor higher, and read "
    "the counts of the task itself",
}
"""What to do where a simple rate predicts better."""
_FEW = 5  # most rows of an answer that is printed
_WORDS = ("sentence", "why", "said", "verdict")  # fields that say an answer in words
_LESSONS = {
    "recommended": "recommended for tasks of type",
    "warned against": "warned against because of",
}


def printed(one: Any) -> str:
    """Return an answer, or a list of them, as a few lines for people."""
    return "\n".join(map(_line, one) if isinstance(one, Sequence) else _lines(one))


def _lines(one: Any) -> Iterator[str]:
    if hasattr(one, "items"):
        nothing = "" if one.items or one.warnings else "nothing is known of such tasks: "
        yield f"{nothing}{_quoted(one.text)}"
    elif (rests_on := getattr(one, "basis", None)) is None:
        yield _line(one)
    else:
        bounds = f"{percent(one.low)} to {percent(one.high)}, 95% credible"
        times = counted(one.trials, "time")
        tried = {0: "not tried", 1: "tried once"}.get(one.trials, f"tried {times}")
        yield f"expected {percent(one.probability)} ({bounds}), {tried} on this task"
        yield from (f"  {fenced(line, _LINE)}" for line in basis(rests_on))
    for name, mark in (("items", ""), ("others", ""), ("warnings", "warning: "), ("rejected", "")):
        rows = getattr(one, name, ())
        yield from (f"  {mark}{_line(row)}" for row in rows[:_FEW])
        if more := len(rows[_FEW:]):
            yield f"  {mark}and {more:,} more"


def _line(one: Any) -> str:
    """Return an answer in a line: in its own words, else its short fields by name."""
    own = next((getattr(one, name, None) for name in _WORDS if getattr(one, name, None)), None)
    fields = dict(one) if isinstance(one, Mapping) or hasattr(one, "model_dump") else {"": one}
    name = next((fields[name] for name in ("text", "strategy", "task") if fields.get(name)), "")
    if own and own == fields.get("said") and "mean" in fields:
        own = f"expected {percent(fields['mean'])}: {own}"
    if own:
        return f"{fenced(str(name), _TEXT)}: {fenced(own, _LINE)}" if name else fenced(own, _LINE)
    if {"trials", "successes"} <= fields.keys():
        fields["worked"] = f"{fields.pop('successes'):,} of {fields.pop('trials'):,}"
    if "id" in fields:
        fields["id"] = fields.pop("id")  # it comes last
    facts = (
        f"{name_field(name)} {_fact(value)}".strip()
        for name, value in fields.items()
        if value not in (None, "", (), {}, [])
    )
    return ", ".join(facts)


def _fact(value: Any) -> str:
    if isinstance(value, Mapping | tuple | list):
        return f"({len(value):,})"
    return fenced(cell(value), _TEXT)


def tree(levels_map: Any) -> str:
    """Return a map of levels as a tree."""
    whose = "" if levels_map.agent is None else f" that {short(levels_map.agent)} may read"
    levels, entries = counted(len(levels_map.levels), "level"), counted(levels_map.entries, "entry")
    first = f"{levels}{whose}: {entries}, {levels_map.pending} pending"
    return "\n".join([first, *_branches(levels_map)])


def _branches(levels_map: Any) -> Iterator[str]:
    by_name = {level.name: level for level in levels_map.levels}
    above: dict[str, list[Any]] = {}
    for edge in levels_map.edges:
        above.setdefault(edge.source, []).append(edge)
    targets = {edge.target for edge in levels_map.edges}
    names: set[str] = set()
    # A circle, which an import can close, has no root.
    for root in (*(name for name in by_name if name not in targets), *by_name):
        waiting = [] if root in names else [(0, root, "")]
        while waiting:
            depth, name, way = waiting.pop()
            start = f"{'  ' * (depth - 1)}└ " if depth else ""
            if name in names:
                yield f"{start}{short(name)}{way} (above)"
                continue
            names.add(name)
            yield f"{start}{short(name)}{way}: {_contents_of(by_name[name])}"
            for edge in reversed(above.get(name, ())):
                how = f" ({short(edge.transformer)})" if edge.transformer else ""
                waiting.append((depth + 1, edge.target, how))


def _contents_of(level: Any) -> str:
    if level.view:
        return f"shows {level.holds}"
    parts = [counted(level.entries, "entry")]
    words = ("expired", "pending", "missed", "failed")
    parts += [f"{number} {word}" for word in words if (number := getattr(level, word))]
    if level.ttl is not None:
        parts.append(f"for {level.ttl:.6g} s")
    if level.capacity is not None:
        parts.append(f"at most {level.capacity}")
    if level.decay is not None:
        parts.append(f"fades by {100 * level.decay:.4g} % a minute")
    if level.members is not None:
        parts.append(f"of {', '.join(map(short, level.members)) or 'nobody'}")
    return ", ".join(parts)


def explanation(one: Any) -> Iterator[str]:
    """Yield an explanation, one fact a line, without invisible characters."""
    yield f"{one.kind} {_quoted(one.text)}{_about(one)}"
    yield f"  why: {one.why.sentence}"
    if one.first_at is not None:
        dated = f" ({one.dated:,} with a date)" if one.dated else ""
        yield f"  since: {_date(one.first_at)} to {_date(one.last_at)}{dated}"
    if one.trend is not None:
        yield f"  trend: {_trend(one.trend)}"
    yield from (f"  changed: {turn.sentence}" for turn in one.changes)
    if one.policy is not None:
        yield f"  value: {_value(one.policy)}"
    for name, episodes in (("for", one.supporting), ("against", one.opposing)):
        if episodes:
            yield f"  {name}, the latest:"
            yield from (f"    {_episode(episode)}" for episode in episodes)
    for name, shares in (("task", one.by_task), ("agent", one.by_agent)):
        if shares.rows and not (name == "agent" and one.agent is not None):
            more = shares.groups - len(shares.rows)
            yield f"  by {name} ({more:,} more):" if more else f"  by {name}:"
            yield from (f"    {_share(share)}" for share in shares.rows)
    if one.neighbours:
        yield "  near it:"
        yield from (f"    {_neighbour(near)}" for near in one.neighbours)
    if (better := one.better_alternative) is not None:
        worked = f"{_of(better)} on the same {better.ground}"
        yield f"  better: {_quoted(better.strategy)} ({worked}, {better.lift:+.2f})"
    if one.on_task is not None and (expected := one.expected) is not None:
        bounds = f"{percent(expected.low)} to {percent(expected.high)}"
        yield f"  on {_quoted(one.on_task)}: expected {percent(expected.probability)} ({bounds})"
        yield from (f"    {fenced(line, _LINE)}" for line in basis(expected.basis))
    if one.what_would_change:
        yield "  what would change this:"
        yield from (f"    {turn.sentence}" for turn in one.what_would_change)


def _about(one: Any) -> str:
    parts = [f"[{one.verdict}]"] if one.verdict else []
    if one.agent is not None:
        parts.append(f"of agent {_quoted(one.agent)}")
    if one.error_class is not None:
        parts.append(f"that ends in {_quoted(one.error_class)}")
    if one.kind == "rule":
        parts.append("for all tasks" if one.task is None else f"of task {_quoted(one.task)}")
    elif one.task_types:
        few, more = ", ".join(map(_quoted, one.task_types[:5])), len(one.task_types) - 5
        parts.append(f"on {few} and {more:,} more" if more > 0 else f"on {few}")
    if one.policy is not None:
        parts.append(f"in state {fenced(one.policy.state, _TEXT)}")
    if one.read_as is not None:
        parts.append(f"as agent {_quoted(one.read_as)} may read it")
    return "".join(f", {part}" for part in parts)


def _quoted(text: str, limit: int = _TEXT) -> str:
    return f'"{fenced(text, limit)}"'


def _date(moment: datetime | None) -> str:
    return "no date   " if moment is None else moment.strftime("%Y-%m-%d")


def _of(counts: Any, part: str = "") -> str:
    successes, trials = (getattr(counts, f"{part}{name}") for name in ("successes", "trials"))
    return f"{successes:,} of {trials:,}"


def _trend(trend: Any) -> str:
    later = f"{_of(trend, 'later_')} from {_date(trend.later_from)} on"
    halves = f"{_of(trend, 'earlier_')} earlier, {later}"
    if trend.direction == "steady":
        return f"steady ({halves})"
    sure = "the bounds do not overlap" if trend.certain else "not certain, the bounds overlap"
    return f"{trend.direction} by {abs(trend.change):.2f} ({halves}; {sure})"


def _episode(episode: Any) -> str:
    line = f"{_date(episode.at)}  score {episode.score:.2f}"
    if episode.failed:
        saved = "" if episode.saved_by is None else f"; {_quoted(episode.saved_by)} saved it"
        line += f" (failed in this run{saved})"
    line += f"  {_quoted(episode.task)}"
    error = "" if episode.error is None else f": {fenced(episode.error, _TEXT)}"
    return f"{line} by {_quoted(episode.agent)}{error}  ({episode.id})"


def _share(share: Any) -> str:
    bounds = f"{share.lower:.2f} to {share.upper:.2f}"
    wording = "" if share.text is None else f"  {_quoted(share.text, _WORDING)}"
    return f"{_of(share)} ({bounds})  {_quoted(share.name)}{wording}"


def _neighbour(near: Any) -> str:
    line = f"{_LESSONS.get(near.relation, f'{near.relation}:')} {_quoted(near.text)}"
    if near.agent is not None:
        line += f" by agent {_quoted(near.agent)}"
    if near.trials:
        line += f", {_of(near)}"
    if near.weight is not None:
        line += f", {'similarity' if near.relation == 'similar' else 'weight'} {near.weight:.2f}"
    if near.episodes is not None:
        line += f", {counted(near.episodes, 'episode')}"
    return line


def _value(policy: Any) -> str:
    crystallized = "crystallized" if policy.crystallized else "not crystallized"
    updates, signals = counted(policy.updates, "update"), counted(policy.signals, "signal")
    confidence = f"confidence {policy.confidence:.2f} after {signals}"
    return f"{policy.q:.4g} after {updates}, {confidence}, {crystallized}"


def basis(one: Any) -> Iterator[str]:
    """Yield what a predicted outcome rests on, a sentence a line."""
    own, task, typed = one.strategies[0], one.task, one.task_type is not None
    several = len(one.strategies) > 1
    others = f"strategies other than {short(own.text)!r}" if several else "other strategies"
    here = (task.uses - own.here_trials, task.worked - own.here_successes)
    kind = (one.type_trials - own.type_trials, one.type_successes - own.type_successes)
    used = kind if typed else here
    rest = (one.trials - own.trials - used[0], one.successes - own.successes - used[1])
    yield _level(f"{others} {'on other types' if typed else 'elsewhere'}", rest, one.rate)
    if typed:
        kind = kind[0] - here[0], kind[1] - here[1]
        yield _level(f"{others} on {one.task_type} tasks", kind, one.type_rate)
    alone = max(task.trials - task.uses, 0)  # episodes without a strategy count like one more
    here = here[0] + alone, here[1] + min(alone, max(task.successes - task.worked, 0))
    yield _level(f"{others} on this task", here, task.rate, _near(task.borrowed, own))
    for part in one.strategies:
        name, tried = f"strategy {short(part.text)!r}", part.here_trials
        elsewhere = (part.trials - tried, part.successes - part.here_successes)
        lent = _near(part.borrowed)
        if part.priors and not elsewhere[0]:
            lent = ", ".join(["what files say", *filter(None, [lent])])
        yield _level(f"{name} elsewhere" if tried else name, elsewhere, part.rate, lent)
        for prior in part.priors:
            yield f"{name} {prior.said}; a prior, worth {prior.worth:.1f} trials"
        if part.near_trials:
            yield (
                f"{name} on tasks like it: {part.near_successes} of {part.near_trials} worked, "
                f"where {percent(part.prior, 1)} was expected; together {percent(part.near, 1)}"
            )
        so_far = "not tried, so it stays at "
        if tried:
            so_far = (
                f"{part.here_successes} of {tried} worked, where {percent(part.near, 1)} was "
                "expected; together "
            )
        yield f"{name} on this task: {so_far}{percent(part.probability, 1)}"
        if part.change is not None:
            where = "on this task" if tried == part.change.trials else "on tasks like this one"
            where = "on all tasks" if part.change.task is None else where
            changed = "changed" if part.change.certain else "may have changed"
            yield f"{name} {changed} {where}: {part.change.sentence}"


def verdict(episodes: int, brier: float | None, baselines: Sequence[Any]) -> str:
    """Return whether a memory predicts its history better than the best simple rate."""
    if brier is None or episodes < _FEWEST:
        return f"{counted(episodes, 'episode')} of at least {_FEWEST}: too few to judge predictions"
    best = min(baselines, key=lambda one: one.brier)
    gain, error, rate = best.gain, best.gain_error, BASELINES[best.name]
    beside = f"Brier score {brier:.3f} beside {best.brier:.3f}, a difference of {abs(gain):.3f}"
    beside += f" with a standard error of {error:.3f}"
    if abs(gain) <= 2.0 * error:
        return f"the memory predicts about as well as the best simple rate, the {rate}: {beside}"
    how, then = ("better", "") if gain > 0.0 else ("worse", f"; {_REMEDIES[best.name]}")
    return f"the memory predicts {how} than the best simple rate, the {rate}: {beside}{then}"


def _near(borrowed: Sequence[Any], own: Any = None) -> str:
    """Return what is similar, with its outcomes; of tasks, with those of others than ``own``."""
    won, trials = (sum(getattr(one, name) for one in borrowed) for name in ("successes", "trials"))
    if own is not None and trials <= own.near_trials:
        return ""
    listed = ", ".join(
        f"{short(one.text)!r} ({'' if own else f'{_of(one)}, '}similarity {one.similarity:.2f})"
        for one in borrowed[:_NEAREST]
    )
    if more := len(borrowed[_NEAREST:]):
        listed += f" and {more} more"
    if own is None:
        return listed
    trials, won = trials - own.near_trials, max(won - own.near_successes, 0)
    return f"{min(won, trials)} of {trials} worked on {listed}"


def _level(what: str, counts: tuple[int, int], rate: float, near: str = "") -> str:
    trials, successes = max(counts[0], 0), min(max(counts[1], 0), max(counts[0], 0))
    worked, told = f"{successes} of {trials} worked" if trials else "no trials", percent(rate, 1)
    if near:
        return f"{what}: {worked}; with similar ones {told}: {near}"
    if trials:
        return f"{what}: {worked}; weighed with the wider rate: {told}"
    return f"{what}: nothing is known, so {told} is taken"
