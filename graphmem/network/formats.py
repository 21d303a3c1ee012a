"""Writes a network for other programs: as GraphML, or as a chart for Mermaid."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TextIO
from xml.sax.saxutils import escape, quoteattr

from graphmem.network.selection import Edge, Node
from graphmem.text import answers as charts

_NODE = {"kind": "string", "text": "string", "trials": "long", "successes": "long"}
_EDGE = {
    "type": "string",
    "agent": "string",
    "trials": "long",
    "successes": "long",
    "weight": "double",
}
_LABEL = 40
_WORKED, _FAILED = "#2e8b57", "#c0392b"
_DARK = ("agent", "anti-pattern", "heuristic")
_CLASSES = {
    "strategy": "#57a773",
    "task": "#f79767",
    "heuristic": "#3f8f5f",
    "anti-pattern": "#c0504d",
    "rule": "#8fb339",
    "policy": "#2f9e8f",
    "state": "#f2c14e",
    "agent": "#604a7b",
    "episode": "#4c8eda",
}


def graphml(nodes: Iterable[Node], edges: Iterable[Edge], file: TextIO) -> tuple[int, int]:
    """Write a network as GraphML; return the numbers of nodes and edges."""
    file.write(
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        '<graphml xmlns="http://graphml.graphdrawing.org/xmlns">\n'
    )
    for what, names in (("node", _NODE), ("edge", _EDGE)):
        for name, kind in names.items():
            file.write(
                f'  <key id="{what}_{name}" for="{what}" attr.name="{name}" attr.type="{kind}"/>\n'
            )
    file.write('  <graph edgedefault="directed">\n')
    node_count = edge_count = 0
    for identity, values in nodes:
        node_count += 1
        file.write(f"    <node id={quoteattr(identity)}>{_data('node', values)}</node>\n")
    for source, target, values in edges:
        edge_count += 1
        ends = f"source={quoteattr(source)} target={quoteattr(target)}"
        file.write(f'    <edge id="e{edge_count}" {ends}>{_data("edge", values)}</edge>\n')
    file.write("  </graph>\n</graphml>\n")
    return node_count, edge_count


def mermaid(nodes: Iterable[Node], edges: Iterable[Edge], file: TextIO) -> tuple[int, int]:
    """Write a network as a flow chart for Mermaid; return the numbers of nodes and edges.

    An edge with trials says how many of them worked; it is wider for more of them, green where at
    least half of them worked, and else red.
    """
    file.write("flowchart LR\n")
    places: dict[str, str] = {}
    kinds: set[str] = set()
    for number, (identity, values) in enumerate(nodes):
        places[identity] = f"n{number}"
        kind = values["kind"]
        kinds.add(kind)
        text = charts.label(values.get("text", identity), _LABEL)
        file.write(f'  n{number}["{text}"]:::{kind.replace("-", "_")}\n')
    styles: list[str] = []
    alike: set[tuple[str, str]] = set()
    count = 0
    for source, target, values in edges:
        if values["type"] == "SIMILAR_TO":  # mostly there both ways: one line says it
            if (target, source) in alike:
                continue
            alike.add((source, target))
        words = charts.label(_words(values), _LABEL)
        file.write(f'  {places[source]} -->|"{words}"| {places[target]}\n')
        if (trials := values.get("trials")) and "successes" in values:
            color = _WORKED if 2 * values["successes"] >= trials else _FAILED
            width = 1 + min(trials, 30) / 6
            styles.append(f"  linkStyle {count} stroke:{color},stroke-width:{width:.1f}px\n")
        count += 1
    file.writelines(styles)
    for kind in sorted(kinds):
        color = f"fill:{_CLASSES[kind]},color:#{'fff' if kind in _DARK else '222'}"
        file.write(f"  classDef {kind.replace('-', '_')} {color}\n")
    return len(places), count


def _words(values: Mapping[str, Any]) -> str:
    """Return what an edge says."""
    if "trials" not in values or "successes" not in values:
        return str(values["type"]).lower().replace("_", " ")
    rate = f"{values['successes']} of {values['trials']}"
    return f"{rate} ({values['agent']})" if "agent" in values else rate


def _data(what: str, values: Mapping[str, Any]) -> str:
    return "".join(
        f'<data key="{what}_{name}">{escape(str(value))}</data>' for name, value in values.items()
    )
