"""Texts of episodes in a prompt: cleaned, on one line, inside a fence that they cannot close.

The author of an episode may have put instructions into it. A prompt therefore says that the text
between :data:`OPEN` and :data:`CLOSE` is data, and each text in between is :func:`fenced`.

Keys and tokens of known shapes are masked. The shapes are those of the default rules of gitleaks
(MIT, ``config/gitleaks.toml``, November 2026) whose secrets begin with a prefix of their own: only
these can be told from other words. To bring the list up to date, compare it with that file.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from typing import Any

from graphmem.printable import SHY

OPEN = "<<<"
CLOSE = ">>>"
ELLIPSIS = "…"

# Characters that look like the fence.
_LOOKS = {
    **dict.fromkeys("<\uff1c\ufe64\u2039\u3008\u27e8\u276e\u276c\u2770\u02c2\u1438", "<"),
    **dict.fromkeys(">\uff1e\ufe65\u203a\u3009\u27e9\u276f\u276d\u2771\u02c3\u1433", ">"),
    **dict.fromkeys("\u00ab\u226a\u300a\u27ea\u2aa1", "<<"),
    **dict.fromkeys("\u00bb\u226b\u300b\u27eb\u2aa2", ">>"),
    **dict.fromkeys("\u22d8\u2af7", "<<<"),
    **dict.fromkeys("\u22d9\u2af8", ">>>"),
}
_ANY = f"[{''.join(_LOOKS)}]"
_RUN = re.compile(f"{_ANY}(?: ?{_ANY})*")
_THREE = re.compile(r"(<|>)\1{2,}")
_SPACES = re.compile(r"\s+")

_BLANK = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0"
    "\U000e0000-\U000e0fff]"
)
"""Matches invisible characters beside controls and formats: fillers, variation selectors, tags."""


def fenced(text: str, limit: int | None = None) -> str:
    """Return a text as data for a prompt: one line, clean, unable to close the fence.

    It is normalized (NFC). White space of any kind becomes one space. Controls, bidirectional
    controls, zero-width characters, variation selectors, tags and lone surrogates are removed.
    Three or more angle brackets in a row (also look-alikes, also with spaces in between) become
    one. Keys and tokens of known shapes are masked. A text longer than ``limit`` (at least 1) is
    cut and ends in an ellipsis.
    """
    clean = text
    if not (text.isascii() and text.isprintable()):
        spaced = _SPACES.sub(" ", unicodedata.normalize("NFC", text))
        # Removed characters may have separated two that compose into one.
        clean = unicodedata.normalize("NFC", _BLANK.sub("", SHY.sub("", spaced)))
    clean = mask(_SPACES.sub(" ", clean).strip())
    clean = _RUN.sub(_short, clean)
    if limit is not None and len(clean) > limit:
        clean = clean[: limit - 1].rstrip() + ELLIPSIS
    return clean


def _short(run: re.Match[str]) -> str:
    looks = "".join(_LOOKS.get(char, "") for char in run[0])
    short = _THREE.sub(r"\1", looks)
    return run[0] if short == looks else short


MASK = "[masked secret]"
SHAPES = (
    r"(?:A3T[A-Z0-9]|AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}\b",  # AWS
    r"AIza[\w-]{35}",  # Google Cloud
    r"gh[pousr]_[0-9A-Za-z]{36,}|github_pat_\w{60,}",  # GitHub
    r"gl(?:pat|dt|ptt|rt|soat)-[\w-]{20,}",  # GitLab
    r"sk-(?:ant-|proj-|svcacct-|admin-|or-v1-)[\w-]{20,}|sk-[0-9A-Za-z]{40,}",  # models' providers
    r"hf_[A-Za-z]{34}|gsk_[0-9A-Za-z]{50,}|xai-[0-9A-Za-z]{60,}|r8_[0-9A-Za-z]{37}",  # the same
    r"xox[abeoprs]-[0-9A-Za-z-]{10,}|xapp-\d-[0-9A-Za-z-]{10,}",  # Slack
    r"(?:sk|rk)_(?:test|live|prod)_[0-9A-Za-z]{10,}",  # Stripe
    r"SG\.[\w-]{16,}\.[\w-]{16,}",  # SendGrid
    r"npm_[0-9A-Za-z]{36}|pypi-AgEIcHlwaS5vcmc[\w-]{50,}",  # registries of packages
    r"dop_v1_[0-9a-f]{64}|shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}",  # DigitalOcean, Shopify
    r"lin_api_[0-9A-Za-z]{40}|ntn_[0-9A-Za-z]{40,}|PMAK-[0-9a-f]{24}-[0-9a-f]{34}",  # Linear ...
    r"hvs\.[\w-]{90,}|AGE-SECRET-KEY-1[0-9A-Z]{58}",  # Vault, age
    r"eyJ[\w-]{17,}\.eyJ[\w/-]{17,}\.[\w/-]{10,}=*",  # JSON web tokens
    r"-----BEGIN [A-Z ]*PRIVATE KEY(?: BLOCK)?-----.*?(?:-----END [A-Z ]*-----|$)",
)
_SECRET = re.compile(rf"(?<![\w-])(?:{'|'.join(SHAPES)})", re.DOTALL)


def mask(text: str) -> str:
    """Return a text without keys and tokens."""
    return _SECRET.sub(MASK, text)


def masked(value: Any) -> Any:
    """Return a value whose texts have no keys and tokens, whatever holds them."""
    if isinstance(value, str):
        return mask(value)
    if isinstance(value, list | tuple):
        return type(value)(map(masked, value))
    if isinstance(value, Mapping):
        return {masked(name): masked(one) for name, one in value.items()}
    fields = getattr(type(value), "model_fields", None)
    if fields is not None:
        changed = {name: masked(getattr(value, name)) for name in fields}
        return value.model_copy(update=changed)
    return value
