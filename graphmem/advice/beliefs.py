"""From counts to beliefs: what the graph, or a replayed history, tells of candidates on a task.

:func:`judge` is the one place where counts become the chance that a strategy works. The counts
are the graph's, or those of a past moment (:mod:`graphmem.advice.calibrate`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from graphmem.advice import formula
from graphmem.advice.formula import Belief, Counts, Expected, Floats, Runs, Turn
from graphmem.graph.estimate import LATEST, NOTHING, PRIOR, Estimate, NearCell, Pair, mean_of
from graphmem.models.forecasts import PoolingStrengths

SUSPECT = 0.05
"""The chance of a change of a strategy everywhere from which its latest outcomes are looked at."""
ALIKE = 0.25
"""What one outcome on a near task must count for, to tell of a change on tasks like it."""
VARIED = 0.4
"""So far from the rate before is that of some latest outcomes where a change there may be."""
SHARE = 0.02
"""Starts of a run that are less probable are left out."""
CLOSEST = 0.999
"""What one outcome on another task counts for, at most."""
PAGE = 1_024
"""How many sequences of outcomes are looked at together."""
LENT = 4.0
"""What a similar strategy lends, at most, in trials."""


@dataclass(slots=True)
class Tally:
    """The outcomes of something, and what they count elsewhere."""

    trials: int = 0
    successes: int = 0
    worth: Pair = NOTHING


class Shared(NamedTuple):
    """What all candidates share."""

    everything: Tally
    typed: Tally
    """Those on the type of the task, which is a part of everything."""
    episodes: Tally
    """Of the task; some may name no strategy."""
    here: Tally
    """All strategies on the task."""
    near: tuple[int, Pair, Pair, Pair]
    """All strategies on near tasks: what :func:`weigh_near` returns."""


class Lately(NamedTuple):
    """One of the latest outcomes of a strategy."""

    stamp: int
    """Time (ms) * 2 + success."""
    task: Hashable
    typed: bool
    """Whether the task has the type that is asked about."""
    own: Pair
    """Trials and successes of the strategy on that task, with this one."""
    others: Pair
    """Trials and successes of other strategies on that task."""
    weight: float | None
    """What one counts for on a near task; None for the task itself, 0 for one that is far."""


LookUp = Callable[[Sequence[int]], Mapping[int, Sequence[Lately]]]
"""Gives the latest outcomes of candidates (places) with their tasks, ascending."""


class Course(NamedTuple):
    """The outcomes of a strategy on a task and on those that are most like it or of its type."""

    trials: int
    successes: int
    latest: Sequence[int]
    """Time * 2 + success, ascending."""
    powers: Sequence[float]
    """How much each of the latest tells of the task: 1 if it was there."""
    typed: Sequence[Lately] = ()
    """The latest again, if they are those on the type."""

    @property
    def varies(self) -> bool:
        """Whether the rate of some latest outcomes is far from the one before."""
        k = 0
        for n, stamp in enumerate(reversed(self.latest), 1):
            k, rest = k + (stamp & 1), self.trials - n
            if n >= 3 and rest and abs(k / n - (self.successes - k) / rest) >= VARIED:
                return True
        return False


@dataclass(slots=True)
class Judgement:
    """What is believed of candidates, and why."""

    belief: Belief
    expected: Expected
    """The rows of :attr:`first` are those of the candidates, if they did not change everywhere."""
    first: NDArray[np.int64]
    turns: list[tuple[Turn | None, Turn | None, Turn | None]]
    """By candidate: its possible change on the task, on tasks like it, and everywhere."""
    nearby: Mapping[int, Course]
    """The outcomes of those candidates (places) that may have changed on tasks like it."""


def plus(pair: Pair, n: float, k: float) -> Pair:
    """Return a pair with more trials and successes."""
    return pair[0] + n, pair[1] + k


def effective(n: float, k: float) -> Pair:
    """Return what n outcomes of one cell count elsewhere, k of them successes.

    That is the formula of the same name, of both.
    """
    share = formula.SPREAD / (n + formula.SPREAD)
    return n * share, k * share


def lend(weight: float, trials: float, successes: float) -> Pair:
    """Return what a similar strategy lends, of which one outcome counts for a weight."""
    most = min(weight / (1.0 - weight), LENT) if weight < 1.0 else LENT
    share = most / (trials + most) if most > 0.0 else 0.0
    return trials * share, successes * share


def weigh_near(cells: Iterable[NearCell]) -> tuple[int, Pair, Pair, Pair]:
    """Return the trials on near tasks, what they are worth there, and what of them counts as near.

    What counts as near is told as a worth elsewhere (of cells), and as counts. Of n outcomes, of
    which one counts for a weight w, all count for n w / (w + n (1 - w)).
    """
    trials, near_n, near_k, gone_n, gone_k, n_of_all, k_of_all = 0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for n, k, weight, _ in cells:
        share = weight / (weight + n * (1.0 - weight))
        spread_n, spread_k = effective(n, k)
        trials += n
        near_n, near_k = near_n + n * share, near_k + k * share
        gone_n, gone_k = gone_n + weight * spread_n, gone_k + weight * spread_k
        n_of_all, k_of_all = n_of_all + n * weight, k_of_all + k * weight
    return trials, (near_n, near_k), (gone_n, gone_k), (n_of_all, k_of_all)


def judge(
    shared: Shared, owns: Sequence[Estimate], strengths: PoolingStrengths, look_up: LookUp
) -> Judgement:
    """Return what is believed of candidates on a task."""
    found, wide = changing(owns, shared.everything.worth, look_up)
    every = [(owns[place].trials, owns[place].successes) for place in found]
    wide_turns = formula.find_turns(wide, every, rare=1.0, possible=True)
    courses = {place: _course(own) for place, own in enumerate(owns) if own.cells}
    nearby, near = _changing_nearby([*courses.items(), *_courses_on_type(owns, found)])
    as_certain = formula.RARE * formula.HAZARD / formula.SPREADING  # as on the task itself
    near_counts = [one[:2] for one in nearby.values()]
    near_turns = formula.find_turns(near, near_counts, as_certain, possible=True)
    wide_row = {place: row for row, place in enumerate(found)}
    near_row = {place: row for row, place in enumerate(nearby)}
    parts: list[_Part] = []
    for place in range(len(owns)):
        wide_starts, near_starts = [(0, 1.0)], [(0, 1.0)]
        if place in found:
            wide_starts = _starts(wide.weights[wide_row[place]])
        if place in nearby:
            near_starts = _starts(near.weights[near_row[place]])
        for start, share in wide_starts:
            if start:
                since = found[place][start - 1 :]
                run = [one.stamp for one in since]
                parts.append(_Part(place, share, run, since, everywhere=True))
                continue
            for at, chance in near_starts:
                part = _Part(place, share * chance)
                if at:
                    course = nearby[place]
                    part = part._replace(run=course.latest[at - 1 :], since=course.typed[at - 1 :])
                parts.append(part)
    of = np.array([one.place for one in parts])
    around = np.array([_around(shared, owns[one.place], one) for one in parts])
    expected = formula.expect(Counts(*around.transpose(1, 2, 0)), PRIOR, strengths)
    counts: list[Pair] = []
    latest: list[Sequence[int]] = []
    for part in parts:
        own = owns[part.place]
        stamps, counted = own.here_latest, (own.here_trials, own.here_successes)
        if part.run:
            stamps = [stamp for stamp in stamps if stamp >= part.run[0]]
            counted = len(stamps), sum([stamp & 1 for stamp in stamps])
        counts.append(counted)
        latest.append(stamps)
    runs = mixed(counts, latest, formula.HAZARD)
    shares = np.array([one.share for one in parts])
    unseen = _unseen(owns, parts, latest, courses | nearby)
    ever = np.flatnonzero([not one.run for one in parts])
    belief = formula.believe(of, ever, shares, unseen, expected, runs, strengths.cell)
    first = np.searchsorted(of, np.arange(len(owns)))
    here = formula.find_turns(runs, counts, possible=True)
    turns = [
        (
            None if parts[row].run else here.get(row),
            near_turns.get(near_row.get(place, -1)),
            wide_turns.get(wide_row.get(place, -1)),
        )
        for place, row in enumerate(map(int, first))
    ]
    return Judgement(belief, expected, first, turns, nearby)


class _Part(NamedTuple):
    """A run that a candidate may be in."""

    place: int
    share: float
    """The chance of the run."""
    run: Sequence[int] = ()
    """The stamps of its outcomes, ascending; none: it has lasted since ever."""
    since: Sequence[Lately] = ()
    """The same with their tasks, if it is one on all tasks or on those of the type."""
    everywhere: bool = False


def _starts(weights: Floats) -> list[tuple[int, float]]:
    """Return which runs may be, and how probably; the one since ever may be drawn all the same."""
    shares = np.where(weights > SHARE, weights, 0.0)
    shares /= shares.sum()
    starts = [(int(start), float(shares[start])) for start in np.flatnonzero(shares)]
    return starts if shares[0] else [*starts, (0, 0.0)]


def _unseen(
    owns: Sequence[Estimate],
    parts: Sequence[_Part],
    here: Sequence[Sequence[int]],
    courses: Mapping[int, Course],
) -> formula.Unseen:
    """Return the chance of changes of candidates while others were tried, by part."""

    def together(latest: Iterable[Sequence[int]]) -> NDArray[np.int64]:
        return np.sort(np.concatenate([np.asarray(one, dtype=np.int64) for one in latest]))

    near = [own.here_latest for own in owns]
    every = together(near)
    for place, course in courses.items():
        near[place] = course.latest
    scopes = together(near), together([own.latest for own in owns])
    before, since = np.zeros((2, len(parts), max(map(len, here))))
    wider = np.zeros(len(parts))
    for row, (part, stamps) in enumerate(zip(parts, here, strict=True)):
        if part.run:
            wider[row] = formula.find_unseen(scopes[part.everywhere], part.run)[1][0]
        if stamps:
            columns = slice(len(stamps))
            before[row, columns], since[row, columns] = formula.find_unseen(every, stamps)
    return formula.Unseen(before, since, wider)


def _course(own: Estimate) -> Course:
    """Return the outcomes of a candidate on the task and on those that are most like it."""
    n, k, every = own.here_trials, own.here_successes, [*zip(own.here_latest, repeat(1.0))]
    for trials, successes, weight, latest in own.cells:
        if weight >= ALIKE:
            n, k = n + trials, k + successes
            every.extend(zip(latest, repeat(weight)))
    stamps, powers = zip(*sorted(every)[-LATEST:], strict=True) if every else ((), ())
    return Course(n, k, stamps, powers)


def _courses_on_type(
    owns: Sequence[Estimate], found: Mapping[int, Sequence[Lately]]
) -> Iterator[tuple[int, Course]]:
    """Yield the outcomes on the type of the task, of candidates (places) that may have changed."""
    for place, latest in found.items():
        typed, own = [one for one in latest if one.typed], owns[place]
        stamps = [one.stamp for one in typed]
        told = Counter((one.task, one.stamp & 1) for one in typed)
        powers = [1.0 / told[one.task, one.stamp & 1] for one in typed]
        known = len(stamps), sum([stamp & 1 for stamp in stamps])
        # An episode may have another type than its task.
        before = _less((own.type_trials, own.type_successes), known)
        n, k = map(int, plus(before, *known))
        yield place, Course(n, k, stamps, powers, typed)


def _changing_nearby(several: Sequence[tuple[int, Course]]) -> tuple[dict[int, Course], Runs]:
    """Return who may have changed on such tasks, most probably how, by place, and a row of runs."""
    several = [one for one in several if one[1].varies]
    if not several:
        return {}, formula.NO_RUNS
    courses = [one for _, one in several]
    latest, powers = [one.latest for one in courses], [one.powers for one in courses]
    runs = mixed([one[:2] for one in courses], latest, formula.SPREADING, powers)
    rows: dict[int, int] = {}
    for row in map(int, runs.weights[:, 0].argsort()):
        if runs.weights[row, 0] < 1.0 - SUSPECT:
            rows.setdefault(several[row][0], row)
    changed = {place: courses[row] for place, row in rows.items()}
    return changed, Runs(*(part[[*rows.values()]] for part in runs))


def changing(
    owns: Sequence[Estimate], everything: Pair, look_up: LookUp
) -> tuple[dict[int, Sequence[Lately]], Runs]:
    """Return who may have changed on all tasks: the latest outcomes by place, and a row of runs.

    ``everything`` is what all outcomes count elsewhere.
    """
    counts = [(own.trials, own.successes) for own in owns]
    wide = mixed(counts, [own.latest for own in owns], formula.DRIFT, formula.TEMPER)
    suspects = [int(place) for place in np.flatnonzero(wide.weights[:, 0] < 1.0 - SUSPECT)]
    if not suspects:
        return {}, formula.NO_RUNS
    found = {place: latest for place, latest in look_up(suspects).items() if latest}
    latest = [[one.stamp for one in many] for many in found.values()]
    counts = [counts[place] for place in found]
    uses = [(owns[place], many) for place, many in found.items()]
    return found, mixed(counts, latest, formula.DRIFT, formula.TEMPER, uses, everything)


def _levels(
    uses: Sequence[tuple[Estimate, Sequence[Lately]]], outcomes: Floats, everything: Pair
) -> list[formula.Level]:
    """Return what the latest outcomes of strategies tell of each other: on all, such and one task.

    So it is no change that a strategy is used on other tasks, where it never worked.
    """
    worth, alike, there, tried, won, task = table = np.zeros((6, *outcomes.shape))
    every, wide, like = np.zeros((3, 2, len(uses), 1))
    rate = there[:] = mean_of(everything[1], everything[0])
    for row, (own, latest) in enumerate(uses):
        numbers: dict[Hashable, int] = {}
        typed = own.type_trials > 0
        every[:, row, 0], wide[:, row, 0] = (own.trials, own.successes), own.effective
        like[:, row, 0] = (own.type_trials, own.type_successes) if typed else _course(own)[:2]
        for at, one in enumerate(latest):
            n, k = effective(*one.others)
            known = (k + formula.NEAR * rate) / (n + formula.NEAR)
            of_group = one.typed if typed else one.weight is None or one.weight >= ALIKE
            number = numbers.setdefault(one.task, len(numbers))
            own_worth = effective(one.own[0], 1.0)[1]
            table[:, row, at] = own_worth, of_group, known, *one.own, number
    counted = (worth > 0.0) * 1.0
    same = (task[:, :, None] == task[:, None, :]) * counted[:, :, None]
    group = (alike[:, :, None] == alike[:, None, :]) * worth[:, :, None]

    def before(whole: Floats, told: Floats) -> Floats:
        gone_n, gone_k = (one.sum(axis=-1, keepdims=True) for one in (told, told * outcomes))
        n = np.maximum(whole[0] - gone_n, 0.0)
        return np.stack((n, np.clip(whole[1] - gone_k, 0.0, n)))

    n, k = before(wide, worth)
    share = n / np.maximum(before(every, counted)[0], 1.0)
    like_n, like_k = np.minimum(before(like, alike) * share, (n, k))
    tried = np.maximum(tried - same.sum(axis=1), 0.0)
    won = np.clip(won - (same * outcomes[:, :, None]).sum(axis=1), 0.0, tried)
    like_k = np.where(alike > 0.0, like_k, np.minimum(k - like_k, n - like_n))
    like_n = np.where(alike > 0.0, like_n, n - like_n)
    nothing = np.zeros_like(there)
    easier = formula.logit(there) - formula.logit(np.full_like(there, rate))
    return [
        formula.Level(worth[:, :, None], n, k, 1.0, nothing),
        formula.Level(group, like_n, like_k, formula.NEAR, easier),
        formula.Level(same, tried, won, formula.DEFAULTS.cell, nothing),
    ]


def mixed(
    counts: Sequence[Pair],
    latest: Sequence[Sequence[int]],
    hazard: float,
    power: Sequence[Sequence[float]] | float = 1.0,
    uses: Sequence[tuple[Estimate, Sequence[Lately]]] = (),
    everything: Pair = NOTHING,
) -> Runs:
    """Return the runs (:func:`graphmem.advice.formula.mix`) of what has so many outcomes.

    The latest are stamps, ascending; ``uses`` tells their tasks, if these are several.
    """
    columns = max(map(len, latest), default=0)
    outcomes, powers = np.zeros((2, len(latest), columns))
    for row, stamps in enumerate(latest):
        outcomes[row, : len(stamps)] = [stamp & 1 for stamp in stamps]
    for row, one in enumerate(power if not isinstance(power, float) else ()):
        powers[row, : len(one)] = one
    lengths = np.array([len(one) for one in latest], dtype=np.int64)
    n, k = np.array(counts, dtype=np.float64).reshape(-1, 2).T
    n, k = n - lengths, k - outcomes.sum(axis=1)
    runs = []
    for at in range(0, len(latest) or 1, PAGE):
        part = slice(at, at + PAGE)
        levels = _levels(uses[part], outcomes[part], everything) if uses else ()
        told = power if isinstance(power, float) else powers[part]
        runs.append(
            formula.mix(n[part], k[part], outcomes[part], lengths[part], hazard, told, levels)
        )
    return runs[0] if len(runs) == 1 else Runs(*map(np.concatenate, zip(*runs, strict=True)))


def _less(pair: Pair, *parts: Pair) -> Pair:
    """Return a pair without parts of it."""
    n, k = pair
    for part_n, part_k in parts:
        n, k = n - part_n, k - part_k
    n = max(n, 0.0)
    return n, min(max(k, 0.0), n)


def _within(pair: Pair, whole: Pair) -> Pair:
    """Return as much of a pair, at its rate, as there can be in a whole."""
    (n, k), (most, won) = pair, whole
    limits = ((k, won), (n - k, most - won))
    share = min((max(limit, 0.0) / part for part, limit in limits if part > limit), default=1.0)
    return n * share, k * share


def _diluted(pair: Pair, trials: float, gone: Sequence[float]) -> Pair:
    """Return a worth of so many trials without some of them."""
    share = min(gone[0] / trials, 1.0) if trials > 0.0 else 1.0
    rate = gone[1] / gone[0] if gone[0] else 0.0
    return _less(pair, (pair[0] * share, pair[0] * share * rate))


def _around(shared: Shared, own: Estimate, part: _Part) -> tuple[Pair, ...]:
    """Return the pairs of :class:`Counts` for a candidate, from all its outcomes or the latest."""
    # What others did on near tasks is known for all strategies together: each has its share.
    near_trials, near, _, near_gone = shared.near
    own_near = own.around_trials / near_trials if near_trials else 0.0
    rate = own.around[1] / own.around[0] if own.around[0] else 0.0
    mine = near[0] * own_near
    near = _less(near, (mine, mine * rate))
    # They may be of one strategy, which tells how easy such tasks are for it, not for all.
    near = effective(*near)
    # What counts on the task and near ones does not count again in the wider rates.
    used = shared.here.trials, shared.here.successes
    here = _less(used, (own.here_trials, own.here_successes))
    gone = [n * (1.0 - own_near) + m for n, m in zip(near_gone, here, strict=True)]
    everything, typed = shared.everything, _less(shared.typed.worth, own.typed)
    others_typed = shared.typed.trials - own.type_trials
    # Episodes without a strategy count like those of one more.
    n, k = _less((shared.episodes.trials, shared.episodes.successes), used)
    # The strategies of one run share its outcome, so that each run counts once.
    once = min(shared.episodes.trials / used[0], 1.0) if used[0] else 1.0
    tried, won = _less(shared.here.worth, own.here)
    others_here = plus((tried * once, won * once), *effective(n, k))
    others = (
        _diluted(
            _less(everything.worth, own.everything, typed),
            everything.trials - own.trials - others_typed,
            NOTHING if shared.typed.trials else gone,
        ),
        _diluted(typed, others_typed, gone),
        near,
        others_here,
        own.lent,
    )
    if part.everywhere:
        return (*others, *_recent(part.since), (1.0, 1.0))
    elsewhere = _less(own.effective, own.here, own.gone)
    on_type, of_type = NOTHING, NOTHING
    if own.trials and own.type_trials:
        # They count for no less than if all were of one task.
        per = max(own.effective[0] / own.trials, effective(own.type_trials, 1.0)[1])
        on_type = _less((own.type_trials * per, own.type_successes * per), own.here, own.gone)
        on_type = _within(on_type, elsewhere)
        of_type = own.type_trials, own.type_trials * per
    if not part.run:
        return (*others, _less(elsewhere, on_type), on_type, own.around, of_type)
    if part.since:
        return (*others, _less(elsewhere, on_type), *_recent(part.since)[1:], (1.0, 1.0))
    since = []
    for cell in own.cells:
        later = [stamp & 1 for stamp in cell.latest if stamp >= part.run[0]]
        since.append(NearCell(len(later), sum(later), cell.weight))
    return (*others, _less(elsewhere, on_type), on_type, weigh_near(since)[1], of_type)


def _recent(since: Sequence[Lately]) -> tuple[Pair, Pair, Pair]:
    """Return what some latest outcomes count for elsewhere, on the type, and as near."""
    cells: dict[Hashable, list[Lately]] = {}
    for one in since:
        if one.weight is not None:
            cells.setdefault(one.task, []).append(one)
    wide, near = [NOTHING, NOTHING], NOTHING
    for cell in cells.values():
        n, k, weight = len(cell), sum([one.stamp & 1 for one in cell]), cell[0].weight or 0.0
        _, worth, gone, _ = weigh_near([NearCell(n, k, weight)])
        (spread_n, spread_k), typed = effective(n, k), int(cell[0].typed)
        wide[typed] = plus(wide[typed], spread_n - gone[0], spread_k - gone[1])
        near = plus(near, *worth)
    return wide[0], wide[1], near
