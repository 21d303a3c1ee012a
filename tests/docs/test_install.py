"""What the pages and messages say of installing is true."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
EXTRA = re.compile(r"pip install [\"'`]*(?:graphmem|\.)\[([a-z0-9,-]+)\]")


def test_every_extra_that_is_named_is_there() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = set(project["optional-dependencies"])
    for folder, kind in (("docs", "*.md"), ("graphmem", "*.py"), ("examples", "*.*")):
        for path in [ROOT / "README.md", *(ROOT / folder).rglob(kind)]:
            for named in EXTRA.findall(path.read_text(encoding="utf-8")):
                assert set(named.split(",")) <= extras, f"{path.name}: {named}"
