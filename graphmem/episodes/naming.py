"""What counts as the strategy of a run that names none, for logs and frameworks.

By default these are the tools: what an agent called is what it did. Everything that maps runs to
episodes names strategies here, so that a log and the agent that wrote it name the same ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from graphmem.errors import ValidationError
from graphmem.ids import canonical_json
from graphmem.models.fields import MAX_STRATEGIES
from graphmem.text.words import THEN

TOOLS, MODEL, AGENT = "tools", "model", "agent"
SHOWN = 12
"""Tools in the text of a sequence."""
NONE = "no tools"

Strategies = str | Callable[[Any], Sequence[str]]
"""``tools``, ``model``, ``agent``, the name of a field, or a function of the run."""


def strategies(
    by: str,
    *,
    tools: Sequence[str] = (),
    model: str | None = None,
    agent: str | None = None,
    fields: Mapping[str, Any] | None = None,
) -> list[str]:
    """Return the strategies of a run; a ValidationError if it does not say what ``by`` asks for.

    ``by`` is ``tools``, ``model``, ``agent``, or the name of a field; dots lead into objects. Of
    tools the first is the sequence by first use (``a > b``); the others are these, one by one.
    """
    if by == TOOLS:
        used = list(dict.fromkeys(tools))
        rest = f"{THEN}({len(used) - SHOWN} more)" if len(used) > SHOWN else ""
        sequence = THEN.join(used[:SHOWN]) + rest if used else NONE
        return list(dict.fromkeys([sequence, *used]))[:MAX_STRATEGIES]
    found = model if by == MODEL else agent if by == AGENT else _field(fields or {}, by)
    if isinstance(found, str) and found.strip():
        return [found]
    if isinstance(found, list) and found and all(isinstance(one, str) for one in found):
        return found
    if found is not None and not isinstance(found, str | list):
        return [canonical_json(found)]
    remedy = "name another field, or tools, model or agent"
    raise ValidationError(by, found, "does not say which strategy was used", remedy)


def _field(fields: Mapping[str, Any], name: str) -> Any:
    if name in fields:
        return fields[name]
    head, dot, rest = name.partition(".")
    inner = fields.get(head)
    return _field(inner, rest) if dot and isinstance(inner, Mapping) else None
