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


@pytest.mark.parametrize("name", ["pasword", "passwd", "model_kye", "GRAPHMEM_PASSWORD"])
def test_an_unknown_argument_may_be_a_secret(name: str) -> None:
    with pytest.raises(SettingsError) as caught:
        Settings(**{name: "hush"})
    assert "hush" not in repr(caught.value)
    assert f"did you mean {'model_key' if 'model' in name else 'password'}?" in str(caught.value)


@pytest.mark.parametrize("name", ["url", "model_base_url"])
def test_the_password_of_a_url_is_not_shown(name: str) -> None:
    url = "neo4j://u:hush@h:7687"
    settings = Settings(**{name: url})
    assert getattr(settings, name) == url
    for text in (
        repr(settings),
        str(settings),
        settings.model_dump_json(),
        str(settings.model_dump()),
    ):
        assert "hush" not in text
        assert "neo4j://***@h:7687" in text
    for wrong in ([url], {"x": url}, 5.5):
        with pytest.raises(SettingsError, match=f"setting {name}") as caught:
            Settings(**{name: wrong})
        assert "hush" not in repr(caught.value)


def test_the_password_is_not_shown() -> None:
    assert "secret" not in repr(Settings(password="secret"))  # noqa: S106
    with pytest.raises(SettingsError) as caught:
        Settings(password=["secret"])
    assert "secret'" not in repr(caught.value)


@pytest.mark.parametrize("url", ["http://localhost", "redis://localhost", " "])
def test_an_unknown_url_is_an_error(url: str) -> None:
    with pytest.raises(SettingsError, match="url"):
        Memory.open(url)
