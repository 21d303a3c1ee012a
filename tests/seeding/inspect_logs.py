"""Logs of Inspect, written by Inspect itself with a model that is none.

Run it in a process of its own: Inspect changes how the whole process logs.
"""

from __future__ import annotations

import sys
from pathlib import Path

from inspect_ai import Task, eval  # noqa: A004
from inspect_ai.dataset import Sample
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from inspect_ai.scorer import Score, Scorer, Target, accuracy, includes, mean, scorer
from inspect_ai.solver import TaskState, generate, use_tools
from inspect_ai.tool import Tool, tool

MODEL = "mockllm/model"


@tool
def look_up() -> Tool:
    async def execute(name: str) -> str:
        """Look up a name.

        Args:
            name: The name.
        """
        if name == "z":
            raise PermissionError("z is secret")
        return f"{name} is 42. " + "More is known of it. " * 20

    return execute


@scorer(metrics=[accuracy()])
def brief() -> Scorer:
    async def score(state: TaskState, target: Target) -> Score:
        return Score(value=0.25, explanation="too long")

    return score


@scorer(metrics={"tone": [mean()], "stars": [mean()]})
def taste() -> Scorer:
    async def score(state: TaskState, target: Target) -> Score:
        return Score(value={"tone": 0.5, "stars": 4})

    return score


def output(text: str) -> ModelOutput:
    """What the model answers; names of one letter are calls. Usage keeps Inspect from counting."""
    if len(text) == 1:
        made = ModelOutput.for_tool_call(MODEL, "look_up", {"name": text})
    else:
        made = ModelOutput.from_content(MODEL, text)
    made.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)
    return made


def write(folder: Path, form: str) -> Path:
    """Write a log of two epochs of two samples, of which each fourth answer is wrong."""
    answers = ["x", "It is 42", "z", "I may not tell 42", "x", "It is 42", "It is 7"]
    task = Task(
        dataset=[
            Sample(input="What is x?", target="42", id="x1", metadata={"level": "easy"}),
            Sample(input="What is z?", target="42", id="z/1"),
        ],
        solver=[use_tools(look_up()), generate()],
        scorer=[includes(), brief(), taste()],
        epochs=2,
        name="lookups",
    )
    model = get_model(MODEL, custom_outputs=[output(text) for text in answers])
    [log] = eval(
        task,
        model=model,
        log_dir=str(folder),
        log_format=form,  # type: ignore[arg-type]
        display="none",
        max_samples=1,
        log_level="critical",
    )
    assert log.status == "success", log.error
    return Path(log.location)


def main() -> None:
    """Write a log in each form; print where it is, and the folder of one in chunks."""
    folder = Path(sys.argv[1])
    for form in ("eval", "json"):
        print(form, path := write(folder, form))
        if form == "eval":
            whole = path
    try:
        from inspect_ai.log._recorders.chunked import convert_eval_logs_to_chunked
    except ImportError:  # it is none of what Inspect promises
        return
    convert_eval_logs_to_chunked(str(whole), str(folder / "chunks"), chunk_size=1)
    print("chunks", *(folder / "chunks").glob("*.eval"))
