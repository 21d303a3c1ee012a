"""Build the pages: ``python -m docs.building`` writes them to ``site``, or to a folder it gets.

A line ``<!-- generated: NAME -->`` of a page becomes the part of that name. The tool that builds
the pages takes this module as an extension of Markdown and, for docstrings, as one of Griffe.
"""

from __future__ import annotations

import inspect
import json
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
import types
import typing
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import click
import griffe
from markdown import Extension, Markdown
from markdown.preprocessors import Preprocessor
from pydantic import BaseModel

from graphmem import Settings, errors
from graphmem.cli.main import cli
from graphmem.models.fields import Output
from graphmem.seeding import formats
from graphmem.store import installing
from graphmem.store.queries import catalog

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
MARK = re.compile(r"<!-- generated: ([\w -]+) -->")
_SHORT = {"NoneType": "None", "Ellipsis": "...", "SecretStr": "str", "AwareDatetime": "datetime"}
_ROLE = re.compile(r":(?:class|meth|mod|func):`[~.]?([\w.]+)`")
_EXTRA_PAGES = {
    "fast": "how-to/embedders.md",
    "inspect": "reference/formats.md",
    "neo4j-rust": "how-to/neo4j.md",
    "otel": "how-to/opentelemetry.md",
    "parquet": "how-to/seed-logs.md",
    "plots": "how-to/notebooks.md",
    "sentence-transformers": "how-to/embedders.md",
    "ui": "how-to/look.md",
}


def main(site: Path) -> int:
    """Build the pages in a copy of their folder: Zensical empties ``.cache`` beside its file."""
    with tempfile.TemporaryDirectory() as folder:
        there = Path(folder)
        shutil.copy(ROOT / "mkdocs.yml", there)
        shutil.copytree(DOCS, there / "docs", ignore=shutil.ignore_patterns("__pycache__"))
        command = [sys.executable, "-m", "zensical", "build", "--strict", "-f"]
        done = subprocess.run([*command, there / "mkdocs.yml"], cwd=ROOT, check=False)
        if done.returncode == 0:
            shutil.rmtree(site, ignore_errors=True)
            shutil.copytree(there / "site", site)
    return done.returncode


class Docstrings(griffe.Extension):
    """Read docstrings as Markdown, and the fields of a model as a table."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Write names as code."""
        if obj.docstring:
            obj.docstring.value = _ROLE.sub(r"`\1`", obj.docstring.value)

    def on_class_members(self, *, cls: griffe.Class, **_: Any) -> None:
        """Let the docstring of a model list its fields, with their types and defaults."""
        kind = getattr(import_module(cls.module.path), cls.name, None)
        if not isinstance(kind, type) or not cls.docstring:
            return
        for name, member in list(cls.members.items()):
            method = inspect.unwrap(getattr(kind, name, None)) if member.is_attribute else None
            if inspect.isfunction(method):  # a method of a part
                cls.members[name] = griffe.Alias(
                    name, f"{method.__module__}.{method.__qualname__}", parent=cls
                )
        lines = []
        for name, annotation, default in fields(kind):
            said = cls.members.pop(name).docstring if name in cls.members else None
            what = " ".join([*([said.value] if said else []), default]).strip()
            lines.append(f"    {name} ({_plain(annotation)}): {' '.join(what.split())}")
        if lines:
            cls.docstring.value += "\n".join(["\n\nAttributes:", *lines])


class Generated(Extension):
    """Markdown with the parts that follow from the code."""

    def extendMarkdown(self, md: Markdown) -> None:  # noqa: N802 - a name of Markdown
        """Let parts take the place of their marks before anything else is read."""
        md.preprocessors.register(_Parts(md), "graphmem", 200)


makeExtension = Generated  # noqa: N816 - a name of Markdown


class _Parts(Preprocessor):
    def run(self, lines: list[str]) -> list[str]:
        return MARK.sub(lambda mark: part(mark[1]), "\n".join(lines)).split("\n")


def part(name: str) -> str:
    """Return a generated part as Markdown."""
    return PARTS[name]()


def commands() -> str:
    """Return all commands: usage, help and options of each, and examples."""
    return "\n".join(_commands(cli, click.Context(cli, info_name="graphmem", terminal_width=200)))


def _commands(group: click.Group, above: click.Context) -> Iterator[str]:
    for name, command in group.commands.items():
        context = click.Context(command, above, info_name=name)
        yield f"{'#' * len(context.command_path.split())} {context.command_path}\n"
        text, _, examples = inspect.cleandoc(command.help or "").partition("\n\b\nExample")
        usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
        yield f"```text\n{usage}\n```\n\n{_marked(inspect.cleandoc(text))}\n"
        options = [option for option in command.params if isinstance(option, click.Option)]
        if rows := [row for option in options if (row := option.get_help_record(context))]:
            yield "| option | what |\n|---|---|"
            yield from (f"| `{names}` | {_cell(what)} |" for names, what in rows)
            yield ""
        if examples:
            yield f"```sh\n{inspect.cleandoc(examples.partition(chr(10))[2])}\n```\n"
        if isinstance(command, click.Group):
            yield from _commands(command, context)


def settings() -> str:
    """Return the table of settings."""
    lines = ["| variable | type | default | what |", "|---|---|---|---|"]
    for name, field in Settings.model_fields.items():
        default = "none" if field.default is None else f"`{field.default}`"
        what = _cell(field.description or "")
        lines.append(
            f"| `GRAPHMEM_{name.upper()}` | `{_plain(field.annotation)}` | {default} | {what} |"
        )
    return "\n".join(lines)


def extras() -> str:
    """Return the table of extras, and the page of each that has one."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lines = ["| extra | installs | see |", "|---|---|---|"]
    for name, needed in sorted(project["optional-dependencies"].items()):
        page = _EXTRA_PAGES.get(name, f"how-to/{name}.md")
        see = f"[{page}]({page})" if (DOCS / page).exists() else ""
        lines.append(f"| `{name}` | {', '.join(f'`{one}`' for one in needed)} | {see} |")
    return "\n".join(lines)


def error_tree() -> str:
    """Return the tree of errors, and what each says of itself."""
    tree = inspect.cleandoc(errors.__doc__ or "").split("\n\n")[1]
    lines = ["```text", inspect.cleandoc("\n" + tree), "```", ""]
    lines += ["| error | retryable | what |", "|---|---|---|"]
    for name, value in vars(errors).items():
        if inspect.isclass(value) and issubclass(value, errors.GraphMemError):
            first = inspect.cleandoc(value.__doc__ or "").split("\n\n")[0]
            lines.append(f"| `{name}` | {'yes' if value.retryable else 'no'} | {_cell(first)} |")
    return "\n".join(lines)


def procedures() -> str:
    """Return all procedures, by subject."""
    lines: list[str] = []
    subject = ""
    for query in sorted(catalog(), key=lambda query: query.name.partition(".")[0]):
        if query.name.partition(".")[0] != subject:
            subject = query.name.partition(".")[0]
            lines += ["", f"### {subject}"] if lines else [f"### {subject}"]
        mode = f"{query.mode}, only {query.engine}" if query.engine else query.mode
        lines += ["", f"`{query.name}` ({mode})", f":   {query.doc}"]
        params = [
            f"`{param.name}` {param.type}"
            + ("" if param.default is ... else f" = {json.dumps(param.default)}")
            for param in query.params.values()
        ]
        returns = [f"`{name}` {kind}" for name, kind in query.returns.items()]
        options = [f"`{name}` ({what})" for name, what in query.options.items()]
        if options:
            lines += ["", f"    Optional lines: {', '.join(options)}."]
        if params:
            lines += ["", f"    Parameters: {', '.join(params)}."]
        if returns:
            lines += ["", f"    Returns: {', '.join(returns)}."]
        if called := installing.called(query):
            lines += ["", f"    On a server: `{called}`."]
    return "\n".join(lines)


def formulas() -> str:
    """Return the formulas that procedures share."""
    text = (catalog().folder / "formulas.cypher").read_text(encoding="utf-8")
    found = re.findall(r"// formula: (.+)\n((?:// doc: .+\n)+)", text)
    return "\n".join(
        [
            "| formula | what |",
            "|---|---|",
            *(
                f"| `{call}` | {_cell(' '.join(doc.replace('// doc: ', '').split()))} |"
                for call, doc in found
            ),
        ]
    )


def log_formats() -> str:
    """Return a section for each log format, with what its table says of it."""
    lines: list[str] = []
    for name, known in sorted(formats().items()):
        if name != "jsonl":
            lines += [f"## {name}", "", _marked(inspect.cleandoc(known.mapping)), ""]
    return "\n".join(lines)


PARTS: dict[str, Callable[[], str]] = {
    "commands": commands,
    "formats": log_formats,
    "settings": settings,
    "extras": extras,
    "errors": error_tree,
    "procedures": procedures,
    "formulas": formulas,
}


def fields(kind: type) -> Iterator[tuple[str, Any, str]]:
    """Yield name, type and default of each field of a model or a named tuple."""
    if issubclass(kind, BaseModel):
        for name, field in kind.model_fields.items():
            missing = field.is_required() or issubclass(kind, Output)
            yield name, field.annotation, "" if missing else f"Default: `{field.default!r}`."
    elif issubclass(kind, tuple):
        for name, annotation in typing.get_type_hints(kind).items():
            yield name, annotation, ""


def _plain(annotation: Any) -> str:
    """Return a type without the checks that hang on it."""
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Annotated:
        return _plain(args[0])
    if origin in (typing.Union, types.UnionType):
        return " | ".join(map(_plain, args))
    if origin is typing.Literal:
        return " | ".join(json.dumps(arg) for arg in args)
    name = getattr(origin or annotation, "__name__", str(annotation))
    name = _SHORT.get(name, name)
    return f"{name}[{', '.join(map(_plain, args))}]" if args else name


def _marked(text: str) -> str:
    """Return the text of a docstring with its marks as those of Markdown."""
    return re.sub(r":(?:class|meth|mod|func):`[~.]?([\w.]+)`", r"`\1`", text).replace("``", "`")


def _cell(text: str) -> str:
    """Return a text for a cell of a table, where a bar within code is none between cells."""
    text = " ".join(_marked(inspect.cleandoc(text)).split())
    return re.sub(r"(`[^`]*`)|\|", lambda found: found[1] or r"\|", text)


if __name__ == "__main__":
    sys.exit(main(Path(*sys.argv[1:] or [ROOT / "site"])))
