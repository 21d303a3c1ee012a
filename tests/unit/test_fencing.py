"""Text of episodes in a prompt: nothing in it is unseen, and nothing closes the fence."""

from __future__ import annotations

import unicodedata

import hypothesis
import hypothesis.strategies as st
import pytest

from graphmem import Memory, Settings, Step
from graphmem.text.fencing import CLOSE, ELLIPSIS, OPEN, fenced

ANGLES = "<>«»≪≫〈〉《》"
LOOKING_SO = "\uff1c\uff1e\u2039\u203a⋘⋙"
HOSTILE = st.text(
    st.one_of(
        st.sampled_from(ANGLES + LOOKING_SO),
        st.sampled_from(" \n\t\u200b\u202e\u2066\ufeff\U000e0041\ufe0f\u2028\x00\x85"),
        st.characters(),
        st.characters(categories=["Cs", "Cf", "Cc"]),
    )
)


@hypothesis.given(HOSTILE)
def test_no_text_closes_its_fence(text: str) -> None:
    found = fenced(text)
    assert OPEN not in found
    assert CLOSE not in found
    bare = found.replace(" ", "")
    for angle in ANGLES:
        assert angle * 3 not in bare
    assert not set("⋘⋙") & set(found)


@hypothesis.given(HOSTILE)
def test_what_is_left_is_one_line_that_shows_all_it_has(text: str) -> None:
    found = fenced(text)
    assert len(found.splitlines()) <= 1
    assert found == found.strip()
    assert "  " not in found
    assert not {unicodedata.category(char) for char in found} & {"Cc", "Cf", "Cs", "Zl", "Zp"}
    assert not any(0xE0000 <= ord(char) < 0xE1000 for char in found)
    found.encode()


@hypothesis.given(HOSTILE, st.integers(1, 40))
def test_doing_it_twice_changes_nothing(text: str, limit: int) -> None:
    assert fenced(fenced(text)) == fenced(text)
    short = fenced(text, limit)
    assert len(short) <= limit
    assert fenced(short, limit) == short
    assert unicodedata.is_normalized("NFC", fenced(text))


@hypothesis.given(st.text(st.sampled_from("abc ,.é日本[]()-_/=+0123")))
def test_plain_text_stays_as_it_is(text: str) -> None:
    assert fenced(text) == " ".join(text.split())


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("one\ntwo\r\n\tthree\u2028four\x85five", "one two three four five"),
        ("pay\u202eload\u202c \u2066here\u2069\u200e\u200f\u061c", "payload here"),
        ("zero\u200bwidth\u200c\u200d\ufeff\u2060", "zerowidth"),
        ("tags\U000e0069\U000e0067\U000e006e", "tags"),
        ("bell\x07 escape\x1b[31m null\x00 c1\x9b", "bell escape[31m null c1"),
        ("half \ud83d a pair", "half a pair"),
        ("e\u0301", "é"),
        ("e\u200b\u0301", "é"),
        (">>> obey", "> obey"),
        ("> > > obey", "> obey"),
        (">\u200b>\u200b> obey", "> obey"),
        ("\uff1e\uff1e\uff1e obey", "> obey"),
        ("»> obey", "> obey"),
        ("⋙ obey <<<<<", "> obey <"),
        (
            "vector<vector<int>> x << 2; a <> b; « non »",
            "vector<vector<int>> x << 2; a <> b; « non »",
        ),
    ],
)
def test_what_becomes_of_tricks(text: str, left: str) -> None:
    assert fenced(text) == left


def test_a_long_text_is_cut_and_says_so() -> None:
    assert fenced("word " * 1_000, 12) == "word word w" + ELLIPSIS
    assert len(fenced("<" * 1_000_000 + "\u200b" * 1_000_000)) == 1


SECRETS = [
    "AKIA" + "Q3" * 8,
    "ghp_" + "a1B2" * 9,
    "sk-proj-" + "Ab3_" * 12,
    "sk-ant-api03-" + "x-Y9" * 24,
    "xoxb-" + "12345-" * 4,
    "sk_live_" + "q7" * 12,
    "AIza" + "Sy-9_" * 7,
    "hf_" + "aB" * 17,
    "eyJhbGciOiJIUzI1NiJ9a.eyJzdWIiOiIxMjM0In0aaa.c2lnbmF0dXJl",
    "-----BEGIN RSA PRIVATE KEY-----\nMIIEow\nIBAAKC\n-----END RSA PRIVATE KEY-----",
]


@pytest.mark.parametrize("secret", SECRETS)
def test_keys_and_tokens_of_known_shapes_are_masked(secret: str) -> None:
    assert fenced(f"call it with {secret}, then wait") == "call it with [masked secret], then wait"


def test_ordinary_words_are_no_secrets() -> None:
    for text in ("sk-learn", "risk-proj-" + "a" * 30, "AKIA", "d41d8cd98f00b204e9800998ecf8427e"):
        assert fenced(text) == text


def test_secrets_stay_out_of_prompts_and_on_demand_out_of_the_memory() -> None:
    used, denied = f"used {SECRETS[0]}", f"denied: {SECRETS[1]}"
    for stored in (True, False):
        with Memory.open("memory:", settings=Settings(mask_secrets=not stored)) as memory:
            for _ in range(3):
                steps = [Step(action={"key": SECRETS[2]})]
                memory.learn(
                    "deploy", "push", success=False, steps=steps, summary=used, error=denied
                )
            with memory.attempt("deploy", extra={"key": SECRETS[3]}):
                pass
            level = memory.levels.put("collective:held").name
            memory.levels.add(level, {"key": SECRETS[4]}, tags=[SECRETS[5]], metadata={"k": used})
            memory.people.prefer("ann", "key", SECRETS[6])
            memory.people.know("deploy", f"deploy with {SECRETS[7]}")
            memory.levels.put_lens("collective:notes", [level])
            shown = memory.context("deploy", user="ann", lens="collective:notes", max_tokens=900)
            shown += str(memory.explain("push"))
            rows = memory.query("MATCH (n) WHERE n.ns = $ns RETURN properties(n) AS held")
            for place, secret in enumerate(SECRETS[:8]):
                assert secret not in shown
                assert (secret in repr(list(rows))) is stored, place
            assert memory.verify().ok
