"""``graphmem skills`` and ``graphmem report``."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphmem import Memory
from tests.cli.running import complaint, good
from tests.contract.test_skills import teach


@pytest.fixture
def taught(url: str) -> str:
    with Memory.open(url) as memory:
        teach(memory)
    return url


def test_each_kind_of_file(taught: str, tmp_path: Path) -> None:
    export = ("--url", taught, "skills", "export")
    folder, file, page = str(tmp_path / "skills"), str(tmp_path / "a.md"), str(tmp_path / "a.html")
    found = f"5 conclusions on 2 kinds of task in {folder}\n"
    assert good(*export, folder).out == f"{found}changed: refunds, visas\n"
    assert good(*export, folder).out == f"{found}changed: nothing\n"
    assert good(*export, "--agents-md", file, "--agent", "ada").out.startswith("1 conclusion on 1")
    told = good("--json", *export, "--playbook", file, "--task-type", "refunds").json
    assert (told["form"], told["conclusions"], told["changed"]) == ("playbook", 4, [file])
    assert good("--url", taught, "report", page).out.endswith(f"changed: {page}\n")
    good("--url", taught, "upkeep", "erase", "--agent", "ada", "--yes")
    assert good(*export, folder).out.endswith("\nremoved: visas\n")
    good("--url", taught, "upkeep", "erase", "--agent", "default", "--yes")
    assert good(*export, "--playbook", file).out.startswith("nothing is established or refuted yet")


@pytest.mark.parametrize(("words", "code", "said"), [
    ("skills export", 2, "give DIR, --agents-md FILE or --playbook FILE"),
    ("skills export a --playbook b", 2, "give DIR, --agents-md FILE or --playbook FILE"),
    ("skills export a --task-type x", 2, "no task of type 'x'; there are: refunds, visas"),
    ("skills export /dev/null", 1, "Error: '/dev/null"),
    ("report /", 1, "is a folder; name a file"), ("report no/such/folder", 1, "there is no folder"),
])  # fmt: skip
def test_wrong_usage(taught: str, words: str, code: int, said: str) -> None:
    assert said in complaint("--url", taught, *words.split(), code=code)
