"""Every public method and model, given what it does not want: one of our errors, and no harm."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from graphmem import Memory, Settings
from graphmem.errors import GraphMemError
from graphmem.models.fields import Input
from tests.conftest import Opener
from tests.contract.calling import calls, methods, models, parameters
from tests.contract.populating import populate
from tests.faults.attack import rounds
from tests.faults.unwanted import HOSTILE

OWN = {"rude", "type", "function"}
"""Can be called, or iterated: what a function of the caller raises is its own error."""
STRIDE = rounds(8, 1)
"""Each parameter is given one in so many hostile values, in turn."""
CALLED = {"count", "episodes", "explore", "extract", "judge", "on_progress", "on_reject"}


def refused(call: Callable[[], Any]) -> str | None:
    """Call, and return what went wrong, if that was not an error of ours."""
    try:
        call()
    except GraphMemError as error:
        return None if str(error) else "says nothing"
    except Exception as error:  # noqa: BLE001 - whatever it is, it is what is looked for
        return f"{type(error).__name__}: {ascii(error)[:200]}"
    return None


def attack(memory: Memory, folder: Path, stride: int) -> list[str]:
    """Give each parameter of each method one in ``stride`` of all hostile values, in turn."""
    public, found = methods(memory), []
    place = 0
    for name, arguments in calls(memory, folder).items():
        if name == "close":
            continue
        for parameter in parameters(public[name]):
            if parameter.kind is parameter.VAR_KEYWORD:
                continue
            place += 1
            if (name, parameter.name) == ("events.crystallize", "follow"):
                continue  # True waits for ever
            for number, (word, make) in enumerate(HOSTILE.items()):
                if (place + number) % stride or (parameter.name in CALLED and word in OWN):
                    continue
                given = arguments() | {parameter.name: make()}
                first = [given.pop(only) for only in ("cypher", "params") if only in given]
                wrong = refused(functools.partial(public[name], *first, **given))
                if wrong:
                    found.append(f"{name}({parameter.name}={word}): {wrong}")
    return found


@pytest.mark.slow
def test_whatever_a_method_is_given_it_raises_an_error_of_ours(
    engine: str, opened: Opener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    memory = opened(embedder="hashing")
    populate(memory, "hostile")
    memory.upkeep.export(tmp_path / "exported.jsonl", "jsonl")
    stride = STRIDE if engine == "embedded" else 4 * STRIDE
    assert attack(memory, tmp_path, stride) == []
    assert memory.verify().ok


MODELS: dict[str, type[BaseModel]] = {
    name: kind for name, kind in models().items() if issubclass(kind, Input)
}


@pytest.mark.parametrize("kind", [Settings, *MODELS.values()], ids=lambda kind: kind.__name__)
def test_whatever_a_model_is_given_it_raises_an_error_of_ours(kind: type[BaseModel]) -> None:
    found = []
    for place, name in enumerate(kind.model_fields):
        for word, make in list(HOSTILE.items())[place % STRIDE :: STRIDE]:
            wrong = refused(functools.partial(kind, **{name: make()}))
            if wrong:
                found.append(f"{kind.__name__}({name}={word}): {wrong}")
    assert found == []


@pytest.mark.parametrize("word", HOSTILE)
def test_whatever_a_memory_is_opened_with(
    word: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    make = HOSTILE[word]

    def opened(url: Any, **given: Any) -> None:
        Memory.open(url, **given).close()

    for wrong in (
        refused(lambda: opened(make())),
        refused(lambda: opened("memory:", namespace=make())),
        refused(lambda: opened("memory:", settings=make())),
        refused(lambda: opened("memory:", embedder=make())),
    ):
        assert wrong is None
    assert {name.name for name in os.scandir(tmp_path)} <= {"graphmem"}
