"""Names of commands in earlier versions, and what to type now."""

from __future__ import annotations

from collections.abc import Sequence

import click

_NOW = {
    **{name: f"list {name}" for name in ("strategies", "tasks", "episodes", "communities")},
    **{f"{name} list": f"list {name}" for name in ("scopes", "predictions", "policies", "levels")},
    **{
        f"lessons {name}": f"list {name}"
        for name in ("heuristics", "anti-patterns", "rules", "mistakes")
    },
    "people knowledge": "list knowledge",
    "stats": "list",
    "show": "explain ID",
    "evidence": "explain STRATEGY` or `graphmem list episodes --strategy STRATEGY",
    "similar": "list strategies --like STRATEGY",
    "verify": "upkeep verify",
    "maintain": "upkeep maintain",
    "backup": "upkeep export DIR",
    "restore": "upkeep import DIR",
    "config": "doctor settings",
    "formats": "doctor formats",
    "embedders": "doctor embedders",
    "cycles": "policies cycles",
    "scopes": "people scope",
    "scopes get": "explain AGENT` or `graphmem list scopes",
    "scopes remove": "people scope AGENT --remove",
    "predictions": "policies expect",
    "predictions resolve": "policies resolve",
    "predictions expire": "policies expire",
    "predictions reliability": "policies reliability",
    "lessons scores": "list scores --task TASK",
    "lessons unmerge": "lessons merge STRATEGY --undo",
    "policies show": "list policies --state STATE",
    "policies observe": "policies update STATE ACTION --success yes",
    "people preferences": "list preferences --user USER",
    "levels entries": "explain ID",
    "levels prolong": "levels put NAME --key KEY --ttl SECONDS",
    "levels unpull": "levels pull TARGET SOURCE --stop",
    "levels statistics": "levels info",
    "levels tags": "levels info NAME",
    "events listen": "events consume --follow",
    "procedures show": "procedures list NAME",
}


def refuse_old_name(words: Sequence[str], ctx: click.Context) -> None:
    """Raise a UsageError that says what to type instead of an old command."""
    for old in (" ".join(words[:2]), words[0]):
        if old in _NOW:
            raise click.UsageError(f"`graphmem {old}` is now `graphmem {_NOW[old]}`", ctx)
