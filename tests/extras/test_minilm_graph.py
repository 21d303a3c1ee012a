"""The graph of MiniLM in ``graphmem/data`` is what its script writes; ``make extras`` runs this."""

import pytest

onnx = pytest.importorskip("onnx")


def test_the_graph_is_what_its_script_writes() -> None:
    from tests.extras.minilm_graph import TARGET, build

    assert onnx.load(TARGET, load_external_data=False) == build()
