"""The command config."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from graphmem.cli.options import Options
from graphmem.cli.printing import print_json, print_table

if TYPE_CHECKING:
    from graphmem.config import Settings


@click.command()
@click.pass_obj
def config(options: Options) -> None:
    """Show every setting, its value, and where it came from.

    \b
    Example:
      GRAPHMEM_Z=1.64 graphmem config
    """
    settings = options.settings()
    rows = list(_settings(options, settings))
    if options.as_json:
        print_json(rows)
    else:
        print_table(
            None,
            [(name, "left") for name in ("setting", "value", "from", "what")],
            [(row["setting"], str(row["value"]), row["from"], row["what"]) for row in rows],
        )


def _settings(options: Options, settings: Settings) -> Iterator[dict[str, Any]]:
    from graphmem.config import SECRETS, URLS, default_folder
    from graphmem.printable import without_password

    for name, field in type(settings).model_fields.items():
        value = getattr(settings, name)
        if name in SECRETS and value is not None:
            value = "********"
        if name in URLS and value is not None:
            value = without_password(value)
        if name == "url" and value is None:
            value = str(default_folder())
        if getattr(options, name, None) is not None:
            source = f"--{name}"
        elif name in settings.model_fields_set:
            source = "environment"
        else:
            source = "default"
        yield {
            "setting": f"GRAPHMEM_{name.upper()}",
            "value": value,
            "from": source,
            "what": field.description,
        }
