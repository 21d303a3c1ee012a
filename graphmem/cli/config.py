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

    That is the environment, a file, the memory, or the default.

    A memory keeps the settings that shape learning: those that you do not set come from the memory
    in the folder. For a memory on a server, see `graphmem query schema.namespace`.

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
            [
                (
                    row["setting"],
                    "" if row["value"] is None else str(row["value"]),
                    row["from"],
                    row["what"],
                )
                for row in rows
            ],
        )


def _settings(options: Options, settings: Settings) -> Iterator[dict[str, Any]]:
    from graphmem.config import SECRETS, URLS, default_folder, from_environment, settings_file
    from graphmem.printable import without_password

    kept = _kept(options, settings)
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
            source = "environment" if from_environment(name) else str(settings_file())
            if kept.get(name) not in (None, value):
                source += f"; the memory keeps {kept[name]}"
        elif kept.get(name) is not None:
            value, source = kept[name], "the memory"
        else:
            source = "default"
        yield {
            "setting": f"GRAPHMEM_{name.upper()}",
            "value": value,
            "from": source,
            "what": field.description,
        }


def _kept(options: Options, settings: Settings) -> dict[str, Any]:
    """Return the settings that the memory in a folder keeps; none if it cannot be read."""
    from graphmem.errors import GraphMemError
    from graphmem.ids import node_id
    from graphmem.store import SERVER_SCHEMES

    if (settings.url or "").partition(":")[0].lower() in SERVER_SCHEMES:
        return {}
    try:
        memory = options.memory()
        rows = memory.query("schema.namespace", id=node_id(memory.namespace, "Namespace"))
    except GraphMemError:
        return {}  # other commands say what is wrong with it
    return rows[0] if rows else {}
