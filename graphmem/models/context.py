"""The question that a context answers, checked."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from graphmem.models.fields import Input, Name


class ContextQuery(Input):
    """What a context is asked for: a task, for whom, and how long it may be (tokens, from 1)."""

    task: Name
    max_tokens: Annotated[int, Field(ge=1)]
    agent: Name | None = None
