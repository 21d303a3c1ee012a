"""Settings: from the environment, checked, and named in errors."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from graphmem import AsyncMemory, Memory, Settings
from graphmem.errors import SettingsError


def test_settings_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRAPHMEM_Z", "1.64")
    monkeypatch.setenv("GRAPHMEM_NAMESPACE", "airline")
    monkeypatch.setenv("GRAPHMEM_URL", "memory:")

    assert Settings().z == 1.64
    with Memory.open() as memory:
        assert (memory.namespace, memory.store.url) == ("airline", "memory:")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("Z", "-1"),
        ("SUCCESS_THRESHOLD", "2"),
        ("DURABILITY", "maybe"),
        ("WAIT", "nan"),
        ("CHOICE_SHARPNESS", "1e9"),
        ("NAMESPACE", " "),
    ],
)
def test_a_wrong_setting_is_named_with_its_value(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(f"GRAPHMEM_{name}", value)
    with pytest.raises(SettingsError, match=f"setting GRAPHMEM_{name}: .*got '{value}'"):
        Settings()


def test_an_unknown_argument_is_an_error() -> None:
    with pytest.raises(SettingsError, match="setting colour"):
        Settings(colour="red")


def test_a_variable_like_a_setting_is_likely_a_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRAPHMEM_NAMSPACE", "airline")
    monkeypatch.setenv("GRAPHMEM_COLOUR", "red")
    monkeypatch.setenv("GRAPHMEM_REQUIRE_NEO4J", "1")  # of the tests
    with pytest.warns(UserWarning, match="GRAPHMEM_") as warned:
        assert Settings().namespace == "default"
    assert sorted(str(one.message) for one in warned) == [
        "GRAPHMEM_COLOUR sets nothing; `graphmem doctor settings` shows all settings",
        "GRAPHMEM_NAMSPACE sets nothing; did you mean GRAPHMEM_NAMESPACE?",
    ]


@pytest.mark.parametrize("name", ["pasword", "passwd", "model_kye", "GRAPHMEM_PASSWORD"])
def test_an_unknown_argument_may_be_a_secret(name: str) -> None:
    with pytest.raises(SettingsError) as caught:
        Settings(**{name: "hush"})
    assert "hush" not in repr(caught.value)
    assert f"did you mean {'model_key' if 'model' in name else 'password'}?" in str(caught.value)


@pytest.mark.parametrize("made", [Memory, AsyncMemory])
def test_a_memory_that_is_not_opened_says_how_to(made: Callable[..., object]) -> None:
    with pytest.raises(TypeError, match=r"Memory\.open"):
        made("runs.graph")


# Files of settings


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_settings_come_from_a_file_of_the_project(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = project / "graphmem.toml"
    file.write_text('url = "runs.graph"\nz = 1.64\ncount_reads = false\nnamespace = "file"\n')
    monkeypatch.setenv("GRAPHMEM_NAMESPACE", "environment")
    settings = Settings(z=2.5)
    assert (settings.z, settings.namespace, settings.count_reads) == (2.5, "environment", False)
    with Memory.open() as memory:
        assert memory.store.url == str(project / "runs.graph")
        memory.learn("t", "s", success=True)
    assert (project / "runs.graph").exists()


def test_a_file_holds_only_in_its_own_folder(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "graphmem.toml").write_text("z = 1.1\n")
    assert Settings().z == 1.1
    (project / "within").mkdir()
    monkeypatch.chdir(project / "within")
    assert Settings().z == 1.96


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("z = -1", r"setting z in .*graphmem\.toml: .*got -1\); change it there"),
        ('durability = "maybe"', r"setting durability in .*got 'maybe'"),
        ("relevance_flor = 0.1", r"setting relevance_flor in .*did you mean relevance_floor\?"),
        ('[model]\nname = "x"', r"setting model in .*did you mean model_key\?"),
        ('pasword = "hush"', r"setting pasword in .*did you mean password\?"),
        ('password = "hush"', r"setting password in .*take it out, and set GRAPHMEM_PASSWORD"),
        ('model_key = "hush"', "set GRAPHMEM_MODEL_KEY"),
        ('url = "neo4j://u:hush@h:7687"', "setting url in .*set GRAPHMEM_PASSWORD"),
        ("z = ", r"settings in .*graphmem\.toml cannot be read: .*line 1"),
        ("[tool", "cannot be read: .*line 1"),
    ],
)
def test_a_wrong_file_is_named_with_its_key(project: Path, line: str, said: str) -> None:
    (project / "graphmem.toml").write_text(line + "\n")
    with pytest.raises(SettingsError, match=said) as caught:
        Settings()
    assert "hush" not in repr(caught.value)
