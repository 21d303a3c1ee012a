"""SECURITY.md: each promise names a test that is there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_each_promise_names_a_test() -> None:
    page = (ROOT / "SECURITY.md").read_text()
    rows = [line for line in page.splitlines() if line.startswith("| ")][1:]
    assert rows
    for row in rows:
        held = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", row)
        assert held, f"no test: {row}"
        for file, name in held:
            code = (ROOT / file).read_text()
            assert re.search(rf"^ *def {name}\(", code, re.MULTILINE), f"{file} has no {name}"
