"""What pages and messages claim: each promise names a test, each extra can be installed."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
EXTRA = re.compile(r"pip install (?:-e )?[\"'`]*(graphmem|\.)\[([a-z0-9,-]+)\]")


def test_each_promise_names_a_test() -> None:
    page = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if line.startswith("| ")][1:]
    assert rows
    for row in rows:
        named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", row)
        assert named, f"no test: {row}"
        for file, name in named:
            code = (ROOT / file).read_text(encoding="utf-8")
            assert re.search(rf"^ *def {name}\(", code, re.MULTILINE), f"{file} has no {name}"


def test_every_extra_can_be_installed_from_a_clone() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = set(project["optional-dependencies"])
    for folder, kind in (("docs", "*.md"), ("graphmem", "*.py"), ("examples", "*.*")):
        for path in [ROOT / "README.md", *(ROOT / folder).rglob(kind)]:
            for source, named in EXTRA.findall(path.read_text(encoding="utf-8")):
                assert source == ".", f"{path.name}: {named}"
                assert set(named.split(",")) <= extras, f"{path.name}: {named}"
