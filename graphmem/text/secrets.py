"""Keys and tokens of known shapes in texts, and their mask.

The shapes are those of the default rules of gitleaks (MIT, ``config/gitleaks.toml``, November 2026)
whose secrets begin with a prefix of their own: only these can be told from other words. To bring
the list up to date, compare it with that file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

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
