"""The command group, its options, and what happens to errors."""

from __future__ import annotations

import sys

import click

from graphmem import __version__
from graphmem.cli import (
    asking,
    crystallize,
    cycles,
    embedding,
    events,
    exchange,
    explaining,
    forecasting,
    learning,
    lessons,
    policies,
    predictions,
    procedures,
    prompting,
    recalling,
    scopes,
    similarity,
    upkeep,
    users,
)
from graphmem.cli.context import Context


@click.group(
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Options stand before the command: graphmem --url ./runs.graph --json stats",
)
@click.option(
    "--url",
    metavar="URL",
    help="A folder, memory:, neo4j://host:7687 or bolt://host:7687 "
    "[GRAPHMEM_URL; default: a folder in your data directory].",
)
@click.option("--namespace", metavar="NAME", help="Namespace [GRAPHMEM_NAMESPACE; default].")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables.")
@click.option(
    "--wait", type=float, metavar="SECONDS", help="Wait for another writer [GRAPHMEM_WAIT; 5]."
)
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
@click.version_option(__version__, prog_name="graphmem")
@click.pass_context
def cli(
    ctx: click.Context,
    url: str | None,
    namespace: str | None,
    as_json: bool,
    wait: float | None,
    debug: bool,
) -> None:
    """A memory of what works: learn from agents' logs, ask what to do, see why.

    \b
    Example:
      graphmem --url ./airline.graph seed logs/gpt-4o-airline.json
      graphmem --url ./airline.graph strategies --task 12
    """
    ctx.obj = Context(url=url, namespace=namespace, as_json=as_json, wait=wait, debug=debug)
    ctx.call_on_close(ctx.obj.close)


for _command in (
    learning.init,
    learning.learn,
    learning.seed,
    learning.formats,
    learning.demo,
    exchange.export,
    exchange.import_,
    asking.strategies,
    asking.stats,
    asking.query,
    asking.evidence,
    similarity.similar,
    similarity.relink,
    recalling.recall,
    lessons.heuristics,
    lessons.anti_patterns,
    lessons.rules,
    lessons.mistakes,
    lessons.scores,
    prompting.write_context,
    prompting.consolidate,
    forecasting.predict,
    forecasting.calibrate,
    explaining.explain,
    lessons.merge,
    lessons.unmerge,
    policies.policies,
    crystallize.crystallize,
    cycles.cycles,
    predictions.predictions,
    events.events,
    embedding.embedders,
    users.prefer,
    users.preferences,
    users.know,
    users.knowledge,
    scopes.scope,
    upkeep.verify,
    upkeep.rebuild,
    upkeep.erase,
    upkeep.forget,
    upkeep.doctor,
    upkeep.config,
    procedures.procedures,
):
    cli.add_command(_command)


def main(arguments: list[str] | None = None) -> None:
    """Run the command line; exit with 2 for wrong usage, 1 for a failure."""
    from graphmem.errors import (
        GraphMemError,
        NotFoundError,
        ProcedureError,
        SettingsError,
        ValidationError,
    )

    arguments = sys.argv[1:] if arguments is None else arguments
    debug = "--debug" in arguments
    try:
        code = cli.main(arguments, prog_name="graphmem", standalone_mode=False)
    except click.exceptions.Abort:
        click.echo("stopped", err=True)
        code = 130
    except click.ClickException as error:
        error.show()
        code = error.exit_code
    except GraphMemError as error:
        if debug:
            raise
        click.echo(f"Error: {error}", err=True)
        usage = ValidationError | SettingsError | NotFoundError | ProcedureError
        code = 2 if isinstance(error, usage) else 1
    except BrokenPipeError:
        sys.stderr.close()
        code = 1
    except (OSError, MemoryError, RecursionError) as error:
        if debug:
            raise
        click.echo(f"Error: {error or type(error).__name__}", err=True)
        code = 1
    sys.exit(code if isinstance(code, int) else 0)
