"""Fill a memory: init, learn, settle, seed; and demo, which shows what then works."""

from __future__ import annotations

import codecs
import importlib
import json
import sys
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from itertools import islice
from pathlib import Path
from statistics import fmean, mode
from typing import TYPE_CHECKING, Any

import click

from graphmem.cli.main import Command, Options, example, moment, several
from graphmem.cli.printing import print_json, print_rows, print_table, progress
from graphmem.errors import GraphMemError, NotFoundError
from graphmem.files import writing
from graphmem.printable import counted, listed, percent, printable
from graphmem.text.cells import cell
from graphmem.text.words import ends

if TYPE_CHECKING:
    from graphmem.memory import Memory
    from graphmem.seeding import Refusal, SeedReport, Source

LINKED = 50_000  # most texts that seed embeds and links itself: some minutes
SHOWN = 20  # kinds of refusals in the table of seed


@click.command(cls=Command)
@example("--url ./runs.graph init")
def init(options: Options) -> None:
    """Create the memory, or bring its indexes up to date."""
    memory = options.memory(must_exist=False)
    version = memory.upkeep.initialize()
    done = {"url": memory.store.url, "schema_version": version}
    options.show(done, f"{memory.store.url} is ready (schema version {version})")


@click.command(cls=Command)
@example('learn "refund a flight" "check policy, then refund" --success --source-key run-17/3')
@click.argument("task")
@click.argument("strategies", nargs=-1, required=True, metavar="STRATEGY...")
@click.option("--success/--failure", default=None, help="Whether it worked.")
@click.option("--score", type=float, help="How well it worked, in [0, 1].")
@click.option("--reward", type=float, help="Any finite number; default: the score.")
@click.option("--agent", default="default", help="Who did it.")
@click.option("--user", help="For whom; `upkeep erase --user` also removes it.")
@click.option("--task-type", help="A class of tasks.")
@click.option("--error", help="The error that ended it.")
@click.option("--feedback", help="The comment of a person or a judge.")
@click.option("--summary", help="A short summary.")
@several("--worked", "successes", metavar="TEXT", help="What went well.")
@several("--mistake", "mistakes", metavar="TEXT", help="What went badly.")
@moment("--started-at", "When it began")
@moment("--ended-at", "When it ended [now]")
@click.option("--source-key", help="A key of the episode; the same key is learned once.")
def learn(options: Options, /, task: str, strategies: tuple[str, ...], **outcome: Any) -> None:
    """Learn one episode: an attempt at TASK by STRATEGY.

    With several strategies, give the main one first.

    Every call counts, unless it has a known source key. `graphmem seed -` takes whole episodes,
    with steps and mistake cards, as JSON lines.
    """
    learned = options.memory(must_exist=False).learn(task, list(strategies), **outcome)
    done = "learned" if learned.created else "known already:"
    options.show(learned, f"{done} episode {learned.episode_id}")


@click.command(cls=Command)
@example('settle run-17/3 --failure --error "the customer was charged twice"')
@click.argument("episode")
@click.option("--success/--failure", default=None, help="Whether it worked.")
@click.option("--score", type=float, help="How well it worked, in [0, 1].")
@click.option("--error", help="What went wrong.")
@moment("--at", "When this was told [now]")
@click.option("--agent", help="Only if it is an episode of this agent.")
def settle(options: Options, /, episode: str, **outcome: Any) -> None:
    """Tell the outcome of EPISODE that came after it ended.

    EPISODE is its id or source key, or the id or key of an abandoned attempt. From then on this is
    its outcome; `explain EPISODE_ID` shows the former one.
    """
    settled = options.memory().settle(episode, **outcome)
    done = "settled" if settled.changed else "known already:"
    options.show(settled, f"{done} episode {settled.episode_id}")


@click.command(cls=Command)
@example("--url ./airline.graph seed logs/gpt-4o-airline.json --format tau-bench")
@example("seed runs.csv --map task=prompt,strategy=tool,success=ok,ended_at=ts")
@example("--url ./fixes.graph seed output.jsonl --outcomes report.json --strategy-from model")
@click.argument("logs", nargs=-1, metavar="[LOG...]")
@click.option("--map", metavar="MAP", help="What fields mean: FIELD=PATH,..., or a TOML file.")
@click.option("--format", "format_name", metavar="NAME", help="Log format; default: by content.")
@click.option("--agent", help="Name of the agent, instead of the one in the log.")
@click.option("--limit", type=click.IntRange(1), help="Most records of each file.")
@click.option(
    "--outcomes", metavar="FILE", help="Outcomes by key: CSV (key, success or score, at), or JSON."
)
@click.option("--strategy-from", metavar="WHAT", help="Strategy: tools, model, agent, or a field.")
@click.option("--evaluator", metavar="NAME", help="Whose judgement counts if a record has several.")
@click.option(
    "--on-error", type=click.Choice(["fail", "ignore"]), default="fail", help="ignore: exit with 0."
)
@click.option(
    "--refused", type=click.Path(dir_okay=False), help="Write refused records there (- to stdout)."
)
@click.option("--dry-run", is_flag=True, help="Show the first records as they would be learned.")
@click.option("--no-link", is_flag=True, help="Learn only; `upkeep relink` embeds and links later.")
def seed(
    options: Options,
    /,
    logs: tuple[str, ...],
    on_error: str,
    refused: str | None,
    *,
    dry_run: bool,
    no_link: bool,
    **how: Any,
) -> None:
    """Learn from LOGs: files, folders or patterns.

    LOG can be - for standard input. Files can be gzipped.

    Outcomes of episodes that are known settle them; without a LOG, that is all.

    A log of a shape of your own needs a map. Without one, the command proposes it.

    Known records are skipped, so you can run an interrupted seeding again. At the end the texts
    are embedded, and similar ones are linked (SIMILAR_TO).
    """
    from graphmem import seeding
    from graphmem.seeding.formats import UnknownFormatError, find

    if options.as_json and refused == "-":
        raise click.UsageError("--json and --refused - both print on standard output")
    if not logs and how["outcomes"] is None:
        raise click.UsageError("Missing argument 'LOG...'.")
    sources = seeding.sources(logs, how["map"]) if logs else []
    if dry_run:
        _preview(options, sources, how)
        return
    if how["format_name"] and how["map"] is None:
        find(how["format_name"])
    memory = options.memory(must_exist=False)
    with ExitStack() as stack:
        sink: Any = sys.stdout
        if refused not in (None, "-"):
            sink = codecs.getwriter("utf-8")(stack.enter_context(writing(str(refused))))

        def write(refusal: Refusal) -> None:
            sink.write(printable(refusal.model_dump_json()) + "\n")
            sink.flush()

        advance = stack.enter_context(progress("seeding", options))
        learn = partial(
            seeding.seed,
            memory,
            sources,
            progress=None if advance is None else lambda count: advance(count, None),
            on_refusal=None if refused is None else write,
        )
        try:
            report = learn(**how)
        except UnknownFormatError as error:
            if error.proposal is None or options.as_json or not sys.stdin.isatty():
                raise
            click.echo(str(error), err=True)
            options.confirm(lambda: "Learn it so?", yes=False)
            report = learn(**{**how, "map": error.proposal.map})
    _link(options, memory, most=0 if no_link else LINKED)
    options.show(report, lambda _: _print_report(report, refused))
    _warn_unfound(report.unfound)
    if report.unmatched:
        keys = ", ".join(report.unmatched_keys[:5]) + (", ..." if report.unmatched > 5 else "")
        count = counted(report.unmatched, "key")
        click.echo(f"warning: no record has {count} of {how['outcomes']}: {keys}", err=True)
    if report.refused and on_error == "fail":
        sys.exit(1)


def _preview(options: Options, sources: list[Source], how: dict[str, Any]) -> None:
    from graphmem.seeding.run import PREVIEW, LogReader

    limit = how.pop("limit") or PREVIEW
    reader = LogReader(sources, **how)
    for shown in reader.preview(limit):
        if options.as_json:
            click.echo(printable(shown.model_dump_json(exclude_defaults=True)))
            continue
        click.echo(f"{cell(shown.file)}, record {shown.record}")
        if shown.episode is None:
            click.echo(f"  refused: {cell(str(shown.problem))}")
            continue
        content = shown.episode.model_dump(mode="json", exclude_defaults=True)
        content["strategy"] = [use.text for use in shown.episode.strategy]
        if steps := [step.action_type for step in shown.episode.steps]:
            content["steps"] = f"{len(steps)}: {', '.join(steps[:10])}"
        for name, value in content.items():
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            click.echo(f"  {name:12} {cell(ends(text, 200))}")
    _warn_unfound(reader.unfound)


def _warn_unfound(fields: Sequence[str]) -> None:
    """Say which fields of a map were in no record: a path may be misspelled."""
    if fields:
        click.echo(f"warning: no record has what the map takes as {', '.join(fields)}", err=True)


def _link(options: Options, memory: Memory, most: int) -> None:
    """Embed what was learned, and link what is similar, so that all who read the graph see it."""
    waiting, how = sum(memory.upkeep.pending().values()), "`graphmem upkeep relink` links them"
    if waiting > most:
        slow = "until then searches take longer"
        click.echo(f"not embedded: {counted(waiting, 'text')}; {how}, {slow}", err=True)
    elif waiting:
        try:
            with progress("embedding and linking", options) as advance:
                memory.upkeep.relink(on_progress=advance)
        except GraphMemError as error:
            click.echo(f"the texts are not linked: {error}; {how}", err=True)


def _print_report(report: SeedReport, refused: str | None) -> None:
    click.echo(
        f"{counted(report.created, 'episode')} learned, {report.skipped:,} known already, "
        f"{report.refused:,} refused, from {counted(report.files, 'file')}"
        + (f"; {report.settled:,} settled by what was told later" if report.settled else "")
    )
    if report.refusals and refused is None:
        alike = Counter((item.field, item.reason) for item in report.refusals)
        firsts = {(item.field, item.reason): item for item in reversed(report.refusals)}
        shown = [firsts[kind] for kind in islice(alike, SHOWN)]
        print_rows(
            shown,
            "file record field reason like_it",
            like_it=lambda item: alike[item.field, item.reason] - 1 or None,
        )
        if report.refused > len(shown):
            click.echo("--refused FILE lists all")


ASKED = "which riders signed up in 2022, and how many trips did each of them make?"
"""A task that is in no log."""
SCRIPT = "choosing_agent"
BARS = "▁▂▃▄▅▆▇█"
WIDTH = 24  # bars of a curve in a terminal


@click.command(cls=Command)
@example("demo")
@click.option(
    "--questions", type=click.IntRange(1, 10_000), default=300, help="Questions of the agent."
)
def demo(options: Options, /, questions: int) -> None:
    """Learn the logs that come with graphmem, and show what works.

    At the end an agent answers questions to a database, and learns while it acts. Without --url the
    logs go into a temporary memory without disk. The agent always has a memory of its own.
    """
    from graphmem import seeding
    from graphmem.cli.policies import CELLS

    options.url = options.url or "memory:"
    memory = options.memory(must_exist=False)
    started = time.perf_counter()
    report = seeding.seed(memory, seeding.sources(map(str, logs())))
    seconds = time.perf_counter() - started
    memory.policies.learn_episodes()
    types = [row["type"] for row in memory.query("analysis.task_types")]
    best = {name: memory.strategies(task_type=name, limit=1) for name in types}
    policies = memory.policies.list(limit=3)
    recalled = memory.recall(ASKED, limit=3)
    checked = memory.verify()
    learned = _learn(questions)
    if options.as_json:
        shown = {"seeded": report, "best": best, "policies": policies}
        print_json({**shown, "recalled": recalled, "verified": checked.ok, "learned": learned})
        return
    click.echo(
        f"{counted(report.created + report.skipped, 'episode')} from "
        f"{counted(report.files, 'log')} in {seconds:.1f} s into {memory.store.url}; no server, no "
        "language model.\n\nWhat works best, by kind of task (the highest lower bound)"
    )
    print_rows(
        [{"kind_of_task": name, **dict(row)} for name, rows in best.items() for row in rows],
        "kind_of_task strategy=text worked=successes/trials 95_%_bounds=lower..upper status",
    )
    click.echo("What to do in a state, learned by TD(0) (the highest values)")
    print_rows(policies, "state action value=q worked=successes/trials", **CELLS)
    click.echo(f'What an agent reads before a task that none had: "{ASKED}" (graphmem context)\n')
    click.echo("\n".join(f"  {line}" for line in memory.context(ASKED).splitlines()) + "\n")
    click.echo("What is recalled for it (graphmem recall)")
    print_rows(
        recalled.items, "strategy=text on_like_tasks=near_successes/near_trials at_least=lower"
    )
    verdict = "follows" if checked.ok else "DOES NOT FOLLOW"
    click.echo(f"Every number {verdict} from the stored episodes ({listed(checked.checked)}).\n")
    _print_learned(learned)
    click.echo("Next: graphmem --url ./my.graph seed YOUR-LOG.jsonl; graphmem --help")


def logs() -> list[Path]:
    """Return the logs that come with graphmem."""
    return sorted(_find_seeds().rglob("*.jsonl.gz"))


def _find_seeds() -> Path:
    here = Path(__file__).parents[1]
    for folder in (here / "seeds", here.parent / "seeds"):
        if (folder / f"{SCRIPT}.py").is_file():
            return folder
    raise NotFoundError("the logs and the agent of the demo are missing; reinstall graphmem")


def _learn(questions: int) -> dict[str, Any]:
    """Let each agent meet the same questions; the one with a memory has its own."""
    from graphmem.memory import Memory

    folder = str(_find_seeds())
    sys.path.insert(0, folder)
    try:
        agent: Any = importlib.import_module(SCRIPT)
    finally:
        sys.path.remove(folder)
    world = agent.world(count=questions)
    best, fixed, ceiling = agent.in_hindsight(world)
    with Memory.open("memory:") as memory:
        started = time.perf_counter()
        chosen = agent.with_memory(world, memory)
        seconds = time.perf_counter() - started
        often = mode(question.text for question in world.questions)
        choice = memory.choose(often, list(agent.WAYS), seed=0)
    answers = {"random": agent.at_random(world), "fixed": fixed, "memory": chosen}
    return {
        "ways": len(agent.WAYS),
        "best_single_way": best,
        "seconds": seconds,
        "choice": choice,
        "agents": {
            name: {
                "rate": fmean(right),
                "last_third": fmean(right[-max(1, questions // 3) :]),
                "right": right,
            }
            for name, right in {**answers, "ceiling": ceiling}.items()
        },
    }


_AGENTS = {
    "random": "a way drawn at random",
    "fixed": "the best single way, in hindsight",
    "memory": "memory.attempt, choose, learn",
    "ceiling": "the best way for each question",
}


def _print_learned(learned: dict[str, Any]) -> None:
    agents, choice = learned["agents"], learned["choice"]
    met = len(agents["memory"]["right"])
    wide = min(WIDTH, met)
    click.echo(
        f"An agent that learns while it acts: {met} questions to a database, {learned['ways']} ways"
    )
    rows = []
    for name, one in agents.items():
        spans = (one["right"][n * met // wide : (n + 1) * met // wide] for n in range(wide))
        bars = "".join(BARS[min(len(BARS) - 1, int(fmean(span) * len(BARS)))] for span in spans)
        rows.append((_AGENTS[name], bars, percent(one["last_third"]), percent(one["rate"])))
    print_table(
        ("how the way is chosen", "right answers, first to last", "the last third", "all"), rows
    )
    click.echo(
        "The memory began with nothing, and learned only whether each answer was right\n"
        f"({learned['seconds']:.1f} s with all answers). The best single way is: "
        f'"{learned["best_single_way"]}".\n'
        f'It now chooses for "{cell(choice.task, 60)}", which came most often:\n'
        f"  {cell(choice.text)}\n  {cell(choice.why)}\n"
    )
