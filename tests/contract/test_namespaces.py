"""Nothing crosses from one namespace of a store to another, whichever method is called."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any
from uuid import uuid4

import pydantic

from graphmem import Memory
from graphmem.errors import GraphMemError
from tests.conftest import Opener
from tests.contract.calling import FILES, calls, methods, parameters
from tests.contract.populating import populate
from tests.contract.teaching import dump

WHOLE = FILES | {"close", "query"}
"""Methods that concern the store, or run the Cypher that they are given."""


def texts(answer: Any) -> set[str]:
    """All texts in an answer."""
    if isinstance(answer, str):
        return {answer}
    if isinstance(answer, pydantic.BaseModel):
        return texts(answer.model_dump())
    if isinstance(answer, dict):
        return texts(list(answer.items()))
    if isinstance(answer, list | tuple | set):
        return {text for value in answer for text in texts(value)}
    return set()


def call(memory: Memory, name: str, given: dict[str, Any]) -> Any:
    method = methods(memory)[name]
    first = [given.pop(one.name) for one in parameters(method) if one.kind is one.POSITIONAL_ONLY]
    return method(*first, **given)


def test_every_method_stays_in_its_namespace(opened: Opener, tmp_path: Path) -> None:
    """Each is called with what fits its own namespace, as it must, and with what fits the other."""
    own, other = (opened(f"{name}-{uuid4().hex}", embedder="hashing") for name in ("a", "b"))
    populate(own, "own")
    populate(other, "OTHER")
    own.upkeep.relink()
    other.upkeep.relink()
    there = dump(other)
    ids = {key.split()[1] for key in there}
    for target in (own, other):
        (tmp_path / target.namespace).mkdir()
        every = calls(target, tmp_path / target.namespace)
        assert every.keys() == methods(own).keys() - {"open", "current_attempt"}
        for name, arguments in every.items():
            given, taken = arguments(), parameters(methods(own)[name])
            assert {one.name for one in taken if one.kind is not one.VAR_KEYWORD} == given.keys()
            if name in WHOLE:
                continue
            asked = texts(list(given.values()))
            answer = set[str]()
            with contextlib.suppress(*[GraphMemError] if target is other else []):
                answer = texts(call(own, name, given))
            assert not answer & (ids - asked), f"{name} told an id of another namespace"
            told = {text for text in answer - asked if "OTHER" in text}
            assert not told, f"{name} told what another namespace holds"
    assert dump(other) == there
    assert other.verify().ok
    assert own.verify().ok
