"""Ask the memory: choose, context, recall, predict, changes, explain; calibrate and evaluate."""

from __future__ import annotations

import os
import re
import sys
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import click

from graphmem.cli.main import NO_TASK, Command, Options, at_most, example, moment, several
from graphmem.cli.printing import print_answer, print_facts, print_json, print_rows, progress
from graphmem.errors import GraphMemError, NotFoundError
from graphmem.kinds import ITEM_KINDS
from graphmem.printable import percent
from graphmem.text.answers import BASELINES
from graphmem.text.cells import cell

if TYPE_CHECKING:
    from graphmem.memory import Memory
    from graphmem.models.advice import Choice, Evaluation, Recall, RecallItem
    from graphmem.models.forecasts import Calibration
    from graphmem.models.reports import Item

MANY = 200  # texts that take about a second to embed
UNKNOWN = (
    "too little is known of such tasks, or nothing fits into --max-tokens; `graphmem list tasks` "
    "shows what is known, and `graphmem recall` says which task is the most like it"
)
with_rights = click.option("--agent", help="Use only what this agent may read.")
for_user = click.option("--user", help="Also what this user prefers.")
with_past = moment("--as-of", "From what was recorded by this time")


def open_for_search(options: Options) -> Memory:
    """Return the memory; load meanwhile in a thread the model, if the memory was embedded by it."""
    from graphmem.search.embedding import minilm

    memory = options.memory()
    name = minilm.MiniLM.name

    def is_needed() -> bool:
        try:
            return memory.upkeep.embedded_with() == name
        except GraphMemError:
            return False  # the command meets it as well, and says so

    # Its threads help to link many texts, but it takes time to start them.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    if memory.settings.embedder == name:
        minilm.load_beside(is_needed)
    import numpy  # noqa: F401 - its import takes as long as that of the model

    visible = sys.stderr.isatty() and not options.as_json
    if visible and sum(memory.upkeep.pending().values()) >= MANY:
        with progress("embedding what is new", options) as advance:
            if memory.store.try_writing():
                memory.upkeep.relink(on_progress=advance)
    return memory


@click.command(cls=Command)
@example('--url ./airline.graph choose "change a seat" get_user_details think')
@example('--url ./airline.graph --json choose "refund a flight" --explore greedy')
@click.argument("task")
@click.argument("candidates", metavar="[CANDIDATE...]", nargs=-1)
@with_rights
@click.option("--task-type", help="The type of the task; default: what is known, or its wording.")
@click.option("--explore", default="thompson", help="thompson, greedy, ucb or epsilon.")
@click.option("--seed", type=int, help="A whole number from 0, which repeats the choice.")
def choose(options: Options, /, task: str, candidates: tuple[str, ...], **how: Any) -> None:
    """Choose the strategy to try now on TASK.

    It is one of CANDIDATES; without any, one of the memory.

    Mostly it is what works; from time to time it is one that is not known well.
    """
    choice = options.memory().choose(task, candidates or None, **how)
    options.show(choice, _print_choice)


def _print_choice(choice: Choice) -> None:
    click.echo(cell(choice.text))
    click.echo(f"  {cell(choice.why)}")
    print_rows(
        (choice, *choice.others),
        "strategy=text taken expected=probability% 95_%=low..high here=here_successes/here_trials "
        "on_tasks_like_it=near_successes/near_trials in_all=successes/trials "
        "changed=change.said it_fails_with",
        taken=lambda one: percent(one.propensity, 1),
        it_fails_with=lambda one: "; ".join(
            dict.fromkeys(warning.error_class for warning in one.warnings)
        ),
    )


@click.command(cls=Command)
@example('--url ./airline.graph context "cancel a reservation" --max-tokens 300')
@example('--url ./ops.graph context "deliver the orders" --agent ada --lens planning')
@click.argument("task")
@click.option("--max-tokens", type=click.IntRange(1), default=200, help="Most tokens of the text.")
@with_rights
@click.option("--lens", metavar="NAME", help="Also what this lens on levels shows: planning ...")
@for_user
def context(options: Options, /, task: str, max_tokens: int, **reading: Any) -> None:
    """Write the lessons for TASK as text for a system prompt. TASK is its key or wording."""
    text = options.memory().context(task, max_tokens=max_tokens, **reading)
    if options.as_json:
        from graphmem.text.tokens import count_tokens

        print_json({"task": task, "context": text, "tokens": count_tokens(text)})
    elif text:
        click.echo(text)
    else:
        click.echo(UNKNOWN, err=True)
    options.note_snapshot()


@click.command(cls=Command)
@example('--url ./airline.graph recall "customer wants a refund for a cancelled flight"')
@example('--url ./airline.graph --json recall "change a seat" --limit 3 --agent ada')
@click.argument("text")
@at_most(5)
@with_rights
@with_past
@for_user
def recall(options: Options, /, text: str, **how: Any) -> None:
    """Show strategies that worked on tasks like TEXT.

    It also shows what to avoid.

    At most --limit strategies come, by what is expected of them. A score selects them: how similar
    the tasks are, times the lower bound of the expected success rate, times how recent the trials
    are.
    """
    memory = open_for_search(options)
    options.show(memory.recall(text, **how), _print_recalled)


def _print_recalled(recalled: Recall) -> None:
    near, floor = recalled.nearest, recalled.floor
    if recalled.facts:
        print_rows(recalled.facts, "about text source at confidence")
    if not (recalled.items or recalled.warnings or recalled.facts):
        text = "nothing is known of such tasks; `graphmem list tasks` lists what is known"
        if near is not None and floor is not None and not recalled.tasks:
            text = (
                f"nothing known is like this: the nearest task is {cell(near.text, 60)!r} at "
                f"{near.similarity:.2f}, under the floor {floor:.2f}; try other words, or see "
                "`graphmem list tasks`"
            )
        click.echo(text)
    if recalled.embedder == "hashing" and (recalled.items or recalled.warnings):
        click.echo("compared by words alone: the embedder `hashing` is not a model")
    for kind, items in groupby(recalled.items, attrgetter("kind")):
        columns = f"{kind}=text what_is_known=said found_by score"
        print_rows([*items], columns, found_by=_find_source)
    if recalled.warnings:
        print_rows(
            recalled.warnings,
            "avoid=strategy it_fails_with=error_class failures=occurrences worked=successes "
            "here=said instead=better_alternative.strategy",
        )


def _find_source(item: RecallItem) -> str:
    if item.kind != "strategy":
        return item.path[1]
    return item.path[-3] if len(item.path) > 2 else "its text"


@click.command(cls=Command)
@example("--url ./airline.graph predict 12 cancel_reservation")
@example('--url ./airline.graph predict "change a seat" get_user_details think --agent ada')
@example("--url ./airline.graph predict 12 cancel_reservation --as-of 2026-05-01T00:00Z")
@click.argument("task")
@click.argument("strategies", metavar="STRATEGY...", nargs=-1, required=True)
@with_rights
@with_past
def predict(options: Options, /, task: str, strategies: tuple[str, ...], **how: Any) -> None:
    """Show the probability that STRATEGY works on TASK, and why. TASK is its key or wording.

    With several strategies: the probability that an episode with all of them succeeds.
    """
    one = strategies[0] if len(strategies) == 1 else None
    several = None if one else strategies
    found = options.memory().predict(task, one, together=several, **how)
    options.show(found, click.echo)


@click.command(cls=Command)
@example("--url ./airline.graph changes")
@example("--url ./airline.graph --json changes --task airline/12 --after 2026-05-01T00:00Z")
@click.option("--task", help="Only of strategies tried on this task: its key, id or wording.")
@with_rights
@moment("--after", "Only changes since this time")
def changes(options: Options, /, **how: Any) -> None:
    """Show what began to work better or worse, and when, the most certain first."""
    memory, task = options.memory(), how["task"]
    unknown = task is not None and not memory.strategies(task, agent=how["agent"], limit=1)
    nothing = "nothing changed for certain; it takes some dated outcomes before and since"
    options.show_rows(
        memory.changes(**how),
        "strategy task since before=successes_before/trials_before "
        "since_then=successes_since/trials_since certain=certainty%",
        NO_TASK if unknown else nothing,
        task=lambda one: "everywhere" if one.task is None else one.task,
    )


_ID = re.compile("[0-9a-f]{6,32}")


@click.command(cls=Command)
@example('--url ./airline.graph explain "check the fare rules"')
@example("--url ./airline.graph explain 8005dd1d95cd")
@example("--url ./airline.graph explain refund --kind anti-pattern --agent ada")
@click.argument("item")
@click.option(
    "--kind", type=click.Choice(ITEM_KINDS), help="Kind of ITEM, if a text matches several."
)
@click.option("--agent", help="Use only episodes that this agent may read.")
@click.option("--task", help="Say also what is expected of the strategy on this task, and why.")
@with_past
def explain(options: Options, /, item: str, **how: Any) -> None:
    """Explain ITEM: the evidence for and against it, what is near it, what would change it.

    ITEM is an id that graphmem printed, or its first six letters, or the text of a strategy,
    anti-pattern or rule. Of an episode, a task and others it shows the fields and links.
    """
    memory = options.memory()
    found, missing = None, None
    if _ID.fullmatch(item):
        try:
            found = memory.show(item)
        except NotFoundError as error:  # it can be a text
            missing = error
    if found is not None and found.kind not in ITEM_KINDS:
        if any(how.values()):
            raise click.UsageError(
                f"--kind, --agent, --task and --as-of are not for a {found.kind}, which has no "
                "verdict"
            )
        options.show(found, _print_item)
        return
    try:
        explanation = memory.explain(item if found is None else found.id, **how)
    except NotFoundError as error:
        raise missing or error from None
    options.show(explanation, lambda _: click.echo(str(explanation)))


def _print_item(item: Item) -> None:
    click.echo(f"{item.kind} {item.id}")
    print_facts(item.fields)
    for link in item.links:
        of = "" if link.id is None else f" ({link.id})"
        click.echo(f"{link.relation:<15}{link.kind} {cell(link.text, 80)}{of}")
    if item.steps:
        print_rows(item.steps, "step=index action_type action observation error")


@click.command(cls=Command)
@example("--url ./airline.graph calibrate")
def calibrate(options: Options) -> None:
    """Show how well the memory predicts past outcomes.

    It predicts each episode from earlier ones, and compares with simple predictors.
    """
    with progress("predicting", options) as advance:
        calibration = options.memory().calibrate(on_progress=advance)
    options.show(calibration, _print_calibration if calibration.episodes else "no episodes yet")


def _print_calibration(found: Calibration) -> None:
    print_rows(
        (found, *found.baselines),
        "predicted_by Brier=brier log_loss AUC=auc calibration_error=ece",
        predicted_by=lambda one: BASELINES[one.name] if one is not found else "this memory",
    )
    click.echo(f"{found.successes:,} of {found.episodes:,} episodes succeeded")
    click.echo(found.verdict)
    click.echo("strengths of pooling")
    print_answer(found.strengths)


@click.command(cls=Command)
@example("--url ./refunds.graph evaluate --explore greedy")
@example('--url ./refunds.graph evaluate --strategy "check the fare rules"')
@click.option("--explore", metavar="WAY", help="thompson, greedy, ucb, epsilon; default: evenly.")
@several("--strategy", "strategies", metavar="TEXT", help="Choose among these alone.")
def evaluate(options: Options, /, strategies: tuple[str, ...], **how: Any) -> None:
    """Estimate what another way to choose would have got.

    It needs past episodes that say with which probability their strategy was chosen.
    """
    if not (how["explore"] or strategies):
        raise click.UsageError("say what to compare with: --explore greedy, or --strategy TEXT")
    with progress("replaying", options) as advance:
        found = options.memory().evaluate(strategies=strategies or None, **how, on_progress=advance)
    options.show(found, _print_evaluation)


def _print_evaluation(found: Evaluation) -> None:
    names = ("inverse_propensity", "self_normalised", "doubly_robust")
    print_rows(
        [{"estimate": name.replace("_", " "), **dict(getattr(found, name))} for name in names],
        "estimate success_rate=value 95_%_interval=low..high gain of_gain=gain_low..gain_high",
    )
    got = f"{found.got:.3f} ({found.got_low:.3f} to {found.got_high:.3f})"
    counts = ("episodes", "effective", "largest_weight", "unsupported")
    facts = {name: getattr(found, name) for name in counts}
    left = {f"left out: {name}": count for name, count in found.left_out if count}
    print_facts({"what was got": got, **facts, **left})
