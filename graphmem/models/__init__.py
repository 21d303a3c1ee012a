"""What goes in and what comes out, as pydantic models."""

from graphmem.models.episodes import (
    Episode,
    Outcome,
    Step,
    StrategyUse,
    content,
    resolve,
    step_content,
    use_content,
)
from graphmem.models.fields import (
    MAX_KEY,
    MAX_STEPS,
    MAX_STRATEGIES,
    MAX_TEXT,
    explain,
    millis,
)
from graphmem.models.reports import (
    Difference,
    EraseReport,
    Learned,
    LearnReport,
    RebuildReport,
    Rejection,
    Stats,
    Status,
    StrategyRow,
    VerifyReport,
)

__all__ = [
    "MAX_KEY",
    "MAX_STEPS",
    "MAX_STRATEGIES",
    "MAX_TEXT",
    "Difference",
    "Episode",
    "EraseReport",
    "LearnReport",
    "Learned",
    "Outcome",
    "RebuildReport",
    "Rejection",
    "Stats",
    "Status",
    "Step",
    "StrategyRow",
    "StrategyUse",
    "VerifyReport",
    "content",
    "explain",
    "millis",
    "resolve",
    "step_content",
    "use_content",
]
