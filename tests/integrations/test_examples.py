"""Each example runs offline, and prints what it says that it prints."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.snippets import same

FOLDER = Path(__file__).resolve().parents[2] / "examples"
EXAMPLES = sorted(FOLDER.glob("*.py"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs_in_a_folder(path: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(path), str(tmp_path / "runs.graph")],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    claims = [
        line.strip().removeprefix("# ->")
        for line in path.read_text(encoding="utf-8").splitlines()
        if line.strip().startswith("# ->")
    ]
    assert claims, f"{path.name} does not say what it prints"
    assert same("\n".join(claims), done.stdout), done.stdout
