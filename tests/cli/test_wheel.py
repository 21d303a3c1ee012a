"""The wheel carries what it needs: built, installed into an empty environment, and run there."""

from __future__ import annotations

import json
import os
import subprocess
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_the_wheel_runs_outside_the_repository(tmp_path: Path) -> None:
    venv.create(tmp_path / "empty", with_pip=True)
    python = tmp_path / "empty" / "bin" / "python"
    # A proxy or index that the machine is set up with stays; nothing of this environment does.
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRT"))
    }

    def run(*command: str) -> str:
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
        return done.stdout

    pip = [str(python), "-m", "pip", "--quiet", "--disable-pip-version-check"]
    run(*pip, "wheel", "--no-deps", "--wheel-dir", str(tmp_path), str(ROOT))
    [wheel] = tmp_path.glob("graphmem-*.whl")
    packed = set(zipfile.ZipFile(wheel).namelist())
    static = {path.name for path in (ROOT / "graphmem/view/static").iterdir()}
    assert {f"graphmem/view/static/{name}" for name in static} <= packed, "the page works from it"
    run(*pip, "install", "--no-compile", str(wheel))

    graphmem = str(tmp_path / "empty" / "bin" / "graphmem")
    where = run(str(python), "-c", "import graphmem; print(graphmem.__file__)")
    assert str(tmp_path) in where
    shown = json.loads(run(graphmem, "--json", "demo", "--questions", "20"))
    assert shown["seeded"]["created"] >= 500
    assert shown["verified"] is True
    assert len(shown["learned"]["agents"]["memory"]["right"]) == 20
    assert "learning.best" in run(graphmem, "procedures", "list")
