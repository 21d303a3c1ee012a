"""Settings: from the environment, checked, and named in errors."""

from __future__ import annotations

import pytest

from graphmem import Memory, Settings
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
        ("Z", "minus one"),
        ("Z", "-1"),
        ("SUCCESS_THRESHOLD", "2"),
        ("DURABILITY", "maybe"),
        ("WAIT", "nan"),
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


def test_the_password_is_not_shown() -> None:
    assert "secret" not in repr(Settings(password="secret"))  # noqa: S106


@pytest.mark.parametrize("url", ["http://localhost", "redis://localhost", " "])
def test_an_unknown_url_is_an_error(url: str) -> None:
    with pytest.raises(SettingsError, match="url"):
        Memory.open(url)
