"""What is told of an estimate: what its outcomes mean, where they are from, if it is advice."""

from __future__ import annotations

from collections.abc import Mapping
from math import sqrt
from typing import TYPE_CHECKING, Final, Literal

from graphmem.graph.rates import HEURISTIC_ABOVE, PRIOR
from graphmem.numerics import wilson_lower
from graphmem.text.fencing import fenced

if TYPE_CHECKING:
    from graphmem.graph.estimate import Estimate

Conclusion = Literal[
    "likely",
    "about as often as not",
    "rarely",
    "too little known",
    "stopped working",
    "works again",
]
"""What outcomes tell of a strategy on a task."""
STOPPED: Final = "stopped working"
STANDARD_ERRORS = 1.0  # the normal quantile of the bounds of an estimate, as recall uses them
LIKELY, RARELY = 0.6, 0.4  # what is expected from the one on is likely, under the other one rare
NEARLY_ALL = 0.9  # a tool that this share of runs use tells runs apart by little
WIDE = 0.45  # with a greater distance of the bounds, too little is known of what has few outcomes
ENOUGH = 5  # so many outcomes are known well; on the task itself they leave little to say to others
MOVED = 0.2  # where the estimate is so far from the rate of these, others moved it
PRIORS = 2  # so many files are named that say something of a strategy
NAMED = 60  # characters of the text of another task or strategy


def conclude(one: Estimate) -> Conclusion:
    """Return what the outcomes behind an estimate tell."""
    change, seen = one.change, one.seen[1]
    before = change.successes_before / change.trials_before if change else HEURISTIC_ABOVE
    if one.probability < RARELY and before > HEURISTIC_ABOVE:
        return STOPPED
    if seen < ENOUGH:
        p, n = one.probability, min(one.worth, seen + 1.0)
        lower, other = (wilson_lower(rate, n, STANDARD_ERRORS) for rate in (p, 1.0 - p))
        if not seen or 1.0 - other - lower > WIDE:
            return "too little known"
    if one.probability < RARELY:
        return "rarely"
    if one.probability < LIKELY:
        return "about as often as not"
    return "works again" if change and 0.0 < before <= HEURISTIC_ABOVE else "likely"


def describe_evidence(one: Estimate) -> str:
    """Return the outcomes that moved an estimate, and where they are from, the nearest first."""
    near, here = one.nearest, one.here_trials
    alike = f"on {_quoted(near['text'])}, like this one" if near else ""
    if one.change:
        where = f", {alike}" if near and near["trials"] == one.trials else ", on all tasks"
        return one.change.said + ("" if one.change.task or here == one.trials else where)
    priors = [prior.said for prior in one.priors[:PRIORS]]
    if not one.trials and priors:
        return "; ".join(["no own outcomes yet", *priors])
    if not one.trials:
        lent = [row for row in one.lenders if row["weight"]]
        if not lent:
            return "never tried"
        won, trials = (sum(row[name] for row in lent) for name in ("successes", "trials"))
        others = " and others" * (len(lent) > 1)
        return f"never tried; {won} of {trials} by {_quoted(lent[0]['text'])}{others}, like it"
    won, rest = one.near_successes, one.near_trials
    few = here < ENOUGH or abs(one.here_successes / here - one.probability) > MOVED
    parts = [(one.here_successes, here, "here", here)]
    if near:
        parts.append((near["successes"], near["trials"], alike, few))
        won, rest = won - near["successes"], rest - near["trials"]
    moves = few and rest and not (near and not near["others"])
    parts.append((won, rest, "on less similar tasks", moves))
    told = sum(trials for _, trials, _, tells in parts if tells)
    typed = few and one.type_trials > here + one.near_trials
    parts.append((one.type_successes, one.type_trials, f"on {one.task_type} tasks", typed))
    told = one.type_trials if typed else told
    where = "in all" if told else "on other tasks, none like this one"
    parts.append((one.successes, one.trials, where, few and one.trials > told))
    said = [f"{won} of {trials} {where}" for won, trials, where, tells in parts if tells]
    return "; ".join([*said, *(priors if few else ())])


def _quoted(text: str) -> str:
    return f"'{fenced(text, NAMED)}'"


def is_common(uses: Mapping[str, float], everything: Mapping[str, int], runs: int) -> bool:
    """Return whether nearly all runs used a tool, and it is no better and no worse than others."""
    if not uses["trials"] or uses["here_trials"] + uses["near_trials"] < NEARLY_ALL * runs:
        return False
    trials, successes = _columns(uses)
    n, k, others = uses[trials], uses[successes], everything[trials] - uses[trials]
    if not others:
        return True
    rate = (everything[successes] + PRIOR[0]) / (everything[trials] + sum(PRIOR))
    error = sqrt(rate * (1.0 - rate) * (1.0 / n + 1.0 / others))
    return abs(k / n - (everything[successes] - k) / others) <= 2.0 * error


def is_usual(uses: Mapping[str, float], everything: Mapping[str, int]) -> bool:
    """Return whether a strategy worked at times, and no less often than the others there."""
    trials, successes = _columns(uses)
    others, won = everything[trials] - uses[trials], everything[successes] - uses[successes]
    better = uses[successes] * others >= won * uses[trials]
    return others > 0 and uses[successes] > 0 and bool(better)


def _columns(uses: Mapping[str, float]) -> tuple[str, str]:
    typed = "type_" if uses["type_trials"] else ""
    return f"{typed}trials", f"{typed}successes"
