"""What is shown: no character that a terminal obeys, no password of a url."""

from __future__ import annotations

import io
import json
import pickle
import sys
import traceback
import unicodedata
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from graphmem import Memory, Settings
from graphmem.errors import GraphMemError, ValidationError, shown
from graphmem.printable import (
    Url,
    counted,
    guarded,
    percent,
    printable,
    unguarded,
    without_password,
    without_passwords,
)

OBEYED = ("Cc", "Cf", "Cs", "Zl", "Zp")


def test_every_control_and_format_character_is_escaped() -> None:
    for code in range(sys.maxunicode + 1):
        char = chr(code)
        if unicodedata.category(char) in OBEYED and char != "\n":
            assert printable(char).isascii(), hex(code)
            assert printable(char).isprintable()
        elif unicodedata.category(char) != "Cn":
            assert printable(char) == char, hex(code)


@given(
    st.recursive(
        st.text() | st.integers(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
    )
)
@example(["\\\u009b", "\x7f\\\\\u202e", "\U000e0001", {"\u2066": "\n"}])
def test_json_has_the_same_value_afterwards(value: object) -> None:
    for indent in (None, 2):
        text = json.dumps(value, ensure_ascii=False, indent=indent)
        assert json.loads(printable(text)) == value


def test_a_guarded_stream_writes_what_is_printable() -> None:
    plain = io.StringIO()
    stream = guarded(plain)
    print("a\x1b[31mb\u202e", file=stream)
    stream.writelines(["c\x7f\n"])
    assert plain.getvalue() == "a\\u001b[31mb\\u202e\nc\\u007f\n"
    assert unguarded(guarded(stream)) is plain
    assert not stream.isatty()


SECRET = "s3cr3t"  # noqa: S105 - of nobody
PLAIN = st.text("ab1._-~", max_size=4)
ODD = st.text("ab@:/?#[]% \t\n\\\"'<>\u202e\x1b", max_size=4)
SCHEMES = st.sampled_from(
    [
        *("neo4j://", "bolt://", "neo4j+s://", "bolt+ssc://", "neo4j:", "neo4j:/", "neo4j:///"),
        *("NEO4J://", "redis://", "http://", "", "//", "neo4j//", " neo4j://", "neo4j ://"),
        *("file://", "memory://", "n\u00e9o4j://"),
    ]
)


@st.composite
def urls(draw: st.DrawFn) -> str:
    """Urls with a password, percent-encoded or not, malformed in many ways."""
    password = draw(ODD | PLAIN) + SECRET + draw(ODD | PLAIN)
    if draw(st.booleans()):
        password = quote(password, safe="")
    host = draw(
        st.sampled_from(["127.0.0.1:1", "", "[::1]:1", "[::1", "h:x", "h:99999", ":1", "h h"])
    )
    end = draw(st.sampled_from(["", "/", "/db", "?a=b", "#x", "/%zz", "?a"]))
    user = draw(st.sampled_from(["neo4j", "", "u%40x", "u@x", "u v"]))
    return f"{draw(SCHEMES)}{user}:{password}@{host}{end}"


@given(urls())
@example("neo4j://u:a/s3cr3t@127.0.0.1:1")
@example("neo4j://u:a?s3cr3t@127.0.0.1:1")
@example("neo4j:u:s3cr3t@host")
@example("bolt://u:s3cr3t@[::1")
@example("neo4j://u:s3cr3t")
@example("neo4j://s3cr3t@127.0.0.1:1")
def test_no_error_about_a_url_tells_its_password(url: str) -> None:
    """Not in its text, its form, nor in the errors behind it."""
    assert SECRET not in without_password(url)
    assert SECRET not in repr(Url(url))
    known = Settings(url=url, wait=0)
    assert SECRET not in repr(known)
    assert SECRET not in str(known)
    assert SECRET not in known.model_dump_json()
    assert known.url == url
    if url.startswith("file:"):
        return
    try:
        Memory.open(url, settings=known).close()
    except GraphMemError as error:
        told = "".join(traceback.format_exception(error)) + repr(error) + str(error)
    else:
        pytest.fail("there is no such server")
    # The traceback shows the line above, but no value in it.
    assert SECRET not in told


@pytest.mark.parametrize(
    ("text", "alone", "within"),
    [
        ("neo4j://u:s3cr3t@h:7687", "neo4j://***@h:7687", "neo4j://***@h:7687"),
        ("neo4j://h:7687", "neo4j://h:7687", "neo4j://h:7687"),
        ("neo4j://a,b:1", "neo4j://a,b:1", "neo4j://a,b:1"),
        ("bolt://[::1]:7687", "bolt://[::1]:7687", "bolt://[::1]:7687"),
        ("neo4j://u:s3cr3t", "neo4j://u:***", None),
        ("neo4j://h?policy=x", "neo4j://h?***", "neo4j://h?policy=x"),
        ("neo4j://h?password=s3cr3t#x", "neo4j://h?***", "neo4j://h?password=***#x"),
        ("/home/me@work/a.graph", "/home/me@work/a.graph", "/home/me@work/a.graph"),
        ("C:\\Users\\me@work", "C:\\Users\\me@work", "C:\\Users\\me@work"),
        ("memory:", "memory:", "memory:"),
        ("u:s3cr3t@h", "***@h", None),
        ("neo4j://u:p@s3cr3t@h:1 is gone", None, "neo4j://***@h:1 is gone"),
        ("neo4j://u:p@s3cr3t@s3cr3t@h/x, a@b", None, "neo4j://***@h/x, a@b"),
        ("neo4j://u:it's3cr3t@h", "neo4j://***@h", "neo4j://***@h"),
        ("(neo4j://u:<s3cr3t>@h)", None, "(neo4j://***@h)"),
        ("no 'neo4j://u:a s3cr3t@h', a@b", None, "no 'neo4j://***@h', a@b"),
        ('{"a": "neo4j://u:it\'s s3cr3t@h"}', None, '{"a": "neo4j://***@h"}'),
        ("see http://h/v1?a=b&api_key=s3cr3t", None, "see http://h/v1?a=b&api_key=***"),
        ("HTTP://s3cr3t@y/z; mail me@there", None, "HTTP://***@y/z; mail me@there"),
    ],
)
def test_what_is_left_of_a_url(text: str, alone: str | None, within: str | None) -> None:
    """Where it stands alone, and within a text."""
    assert alone is None or without_password(text) == alone
    assert within is None or without_passwords(text) == within


def test_no_error_about_another_value_tells_the_password_of_a_url() -> None:
    """Neither in its text nor in its form, wherever a url was given by mistake."""
    for password in ("s3cr3t@s3cr3t", "a s3cr3t", "it's3cr3t", f"{'x' * 300}s3cr3t"):
        url = f"neo4j://u:{password}@h"
        for value in (url, url.encode(), {"a": url}, [url], Path(url)):
            error = ValidationError("task", value, "is wrong")
            told = f"{error} {error!r} {shown(value)}"
            assert "s3cr3t" not in told
            assert "xxx" not in told


def test_a_folder_with_an_at_sign_is_a_folder(tmp_path: Path) -> None:
    for name in (tmp_path / "me@work", str(tmp_path / "you@work"), tmp_path / "a:b@c"):
        with Memory.open(name) as memory:
            memory.learn("t", "s", success=True)
        assert Path(name).is_dir()


def test_a_count_has_the_right_plural() -> None:
    for number, noun, said in (
        (1, "file", "1 file"),
        (0, "entry of its levels", "0 entries of its levels"),
        (1_200, "success", "1,200 successes"),
        (2, "day", "2 days"),
    ):
        assert counted(number, noun) == said


def test_only_what_is_sure_is_shown_as_100_or_0_percent() -> None:
    for share, said in (
        *((1.0, "100%"), (0.0, "0%"), (0.42, "42%"), (0.9949, "99%"), (0.9975, "99.8%")),
        *((0.99996, "99.996%"), (1 - 1e-9, ">99.999%"), (0.004, "0.4%"), (1e-300, "<0.001%")),
    ):
        assert percent(share) == said
    assert [percent(share, 1) for share in (1.0, 0.5, 0.9999)] == ["100.0%", "50.0%", "99.99%"]


def test_messages_speak_the_language_of_the_input() -> None:
    for value, said in (
        (True, "true"),
        ("None", "'None'"),
        ([None, "a", 1.5], '[null, "a", 1.5]'),
        ({"done": True, "at": None}, '{"done": true, "at": null}'),
        ({"at": datetime(2026, 5, 1, tzinfo=UTC)}, '{"at": "2026-05-01T00:00:00+00:00"}'),
        (float("nan"), "nan"),
        (Path("a/b"), "'a/b'"),
    ):
        assert str(ValidationError("field", value, "is wrong")) == f"field: is wrong (got {said})"
    assert str(ValidationError("field", None, "is missing")) == "field: is missing"


def test_an_error_comes_back_from_another_process() -> None:
    error = ValidationError("task", "", "must not be empty", "give a text")
    back = pickle.loads(pickle.dumps(error))  # noqa: S301
    assert (str(back), vars(back)) == (str(error), vars(error))
