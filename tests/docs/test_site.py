"""The pages as they are built: what follows from the code is whole, and links lead on.

They are built with the tools of the dependency group ``docs``; ``GRAPHMEM_REQUIRE_DOCS`` asks for
them.
"""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
import tomllib
import typing
from html import unescape
from pathlib import Path

import click
import pytest
from pydantic import BaseModel

import graphmem
from graphmem import AsyncMemory, Memory, Settings, errors
from graphmem.cli.main import cli
from graphmem.episodes.attempts import AsyncAttempt, Attempt
from graphmem.lessons import Lessons
from graphmem.levels import Levels
from graphmem.people import LearningScopes, People
from graphmem.policies import Policies
from graphmem.policies.cycles import Cycles
from graphmem.policies.events import Consumer, Events
from graphmem.policies.ledger import Predictions
from graphmem.seeding import formats
from graphmem.skills import Skills
from graphmem.store.queries import catalog
from graphmem.upkeep import Upkeep
from tests.cli.test_commands import walk
from tests.contract.calling import models
from tests.docs.test_reference import ROOT

MEMBERS: dict[str, type] = {
    "memory": Memory,
    "memory.lessons": Lessons,
    "memory.policies": Policies,
    "memory.levels": Levels,
    "memory.people": People,
    "memory.scopes": LearningScopes,
    "memory.events": Events,
    "memory.predictions": Predictions,
    "memory.cycles": Cycles,
    "memory.upkeep": Upkeep,
    "memory.skills": Skills,
    "Consumer": Consumer,
    "Attempt": Attempt,
    "AsyncAttempt": AsyncAttempt,
}
INTERNAL = {"renew"}
"""Methods of parts for other modules of the package: they take their transactions."""
UNLISTED = {
    *("Input", "Line", "Outcome", "Output"),
    *("ModelAnswer", "PriorRecord", "ProposedRule", "SettlementRecord"),
    *("LensPreset", "LensSettings", "LevelName", "LevelSettings", "Preset"),
    *("Claim", "ContextQuery", "EntryQuestion", "Expectation", "PullOptions", "Wish"),
}
"""Classes beside the models that only the package itself uses, and the reference leaves out."""


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The HTML of all pages, by their paths in the site."""
    if not importlib.util.find_spec("zensical"):
        if os.environ.get("GRAPHMEM_REQUIRE_DOCS"):
            pytest.fail("the tools of the group docs are not installed: make .venv/.stamp-docs")
        pytest.skip("the tools of the group docs are not installed")
    site = tmp_path_factory.mktemp("docs") / "site"
    done = subprocess.run(
        [sys.executable, "-m", "docs.building", site],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return {
        str(path.parent.relative_to(site)): path.read_text(encoding="utf-8")
        for path in sorted(site.rglob("index.html"))
    }


def anchors(page: str) -> set[str]:
    return set(re.findall(r'\bid="([^"]+)"', page))


def part(page: str, anchor: str) -> str:
    """Return what stands under a heading, up to the next one."""
    found = re.search(rf'<h\d [^>]*\bid="{re.escape(anchor)}".*?(?=<h\d|</article>)', page, re.S)
    assert found, f"no heading {anchor}"
    return found[0]


def cells(text: str) -> list[str]:
    """Return the code in the first cell of each row of tables."""
    rows = re.findall(r"<tr[^>]*>\s*<td[^>]*>(.*?)</td>", text, re.S)
    found = [code[1] for row in rows if (code := re.search(r"<code>(.*?)</code>", row))]
    return [unescape(re.sub(r"<[^>]+>", "", code)) for code in found]


def test_every_link_within_the_site_leads_to_a_page_and_an_anchor(pages: dict[str, str]) -> None:
    known = {path: anchors(page) for path, page in pages.items()}
    broken = []
    for path, page in pages.items():
        body = page.partition("<article")[2].partition("</article>")[0]
        for link in re.findall(r'href="([^"]*)"', body):
            if re.match(r"[a-z]+:", link):
                continue
            target, _, anchor = unescape(link).partition("#")
            there = os.path.normpath(Path(path, target)) if target else path
            if not target.rstrip("/").endswith((".json", ".svg", ".png")) and (
                there not in known or (anchor and anchor not in known[there])
            ):
                broken.append((path, link))
    assert broken == []


def test_every_public_method_is_there(unstored: Memory, pages: dict[str, str]) -> None:
    known = set().union(*map(anchors, pages.values()))
    methods = {".".join(anchor.split(".")[-2:]) for anchor in known}
    for kind in MEMBERS.values():
        for name in {name for name in dir(kind) if not name.startswith("_")} - INTERNAL:
            assert f"{kind.__name__}.{name}" in methods
    for name, kind in MEMBERS.items():
        if name.startswith("memory."):
            assert isinstance(getattr(unstored, name.partition(".")[2]), kind)


def test_every_public_name_is_there(pages: dict[str, str]) -> None:
    known = set().union(*map(anchors, pages.values()))
    for name in set(graphmem.__all__) - {"AsyncMemory", "GraphMemError", "Memory", "Settings"}:
        home = getattr(getattr(graphmem, name), "__module__", "graphmem")
        assert name == "__version__" or {f"{home}.{name}", f"graphmem.{name}"} & known, name
    for name in set(dir(AsyncMemory)) - set(dir(Memory)):
        assert name.startswith("_") or name == "memory"


def test_every_model_is_there_with_its_fields(pages: dict[str, str]) -> None:
    reference = "".join(page for path, page in pages.items() if "reference/python" in path)
    for name, model in models().items():
        if name in UNLISTED:
            continue
        known = model.model_fields if issubclass(model, BaseModel) else typing.get_type_hints(model)
        named = cells(part(reference, f"{model.__module__}.{name}"))
        assert [field for field in named if not field.endswith("Error")] == list(known), name


def test_what_follows_from_the_code_is_there(pages: dict[str, str]) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert set(project["optional-dependencies"]) <= set(cells(pages["."]))
    settings = set(cells(pages["reference/settings"]))
    assert {f"GRAPHMEM_{name.upper()}" for name in Settings.model_fields} <= settings
    assert set(formats()) <= anchors(pages["reference/formats"])
    mode = r"<code>([a-z_.]+)</code> \((?:read|write|schema)"
    listed = re.findall(mode, pages["reference/procedures"])
    assert set(listed) == {query.name for query in catalog()}
    page = pages["reference/errors"]
    [tree] = re.findall(r"<pre.*?</pre>", page, re.S)
    in_table = {name for name in cells(page) if name.endswith("Error")}
    assert in_table == set(re.findall(r"\b([A-Z]\w+Error)\b", tree))
    assert in_table == {
        name
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, errors.GraphMemError)
    }


def test_every_option_of_every_command_is_named(pages: dict[str, str]) -> None:
    page = pages["reference/command-line"]
    for name, command in [("options of all commands", cli), *walk(cli)]:
        named = " ".join(cells(part(page, name.replace(" ", "-"))))
        for option in command.params:
            if isinstance(option, click.Option) and not option.hidden:
                for spelling in (*option.opts, *option.secondary_opts):
                    assert re.search(rf"{re.escape(spelling)}\b", named), f"{name} {spelling}"
