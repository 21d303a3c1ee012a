"""Models are completed when they are first used, wherever that is."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import create_model
from pydantic.errors import PydanticUserError

from graphmem.models.fields import Input, Output


@pytest.mark.parametrize("base", [Input, Output])
def test_variables_of_the_first_user_do_not_matter(base: type[Input | Output]) -> None:
    """Python 3.13.0 crashes where they are read within a comprehension."""
    Missing = int  # noqa: F841, N806 - the name of a type
    field: Any = ("Missing", ...)
    model = create_model("Late", __base__=base, value=field)
    with pytest.raises(PydanticUserError, match="not fully defined"):
        model(value=1)
