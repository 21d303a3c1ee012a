"""Formats of benchmarks and of chats, and what their tables cannot say."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, islice, repeat, zip_longest
from pathlib import Path
from typing import Any

from graphmem.errors import ValidationError
from graphmem.ids import canonical_json
from graphmem.models import Step
from graphmem.seeding import chats
from graphmem.seeding.chats import REPLY, cut_text, text_of
from graphmem.seeding.formats import HEAD, Origin
from graphmem.seeding.tables import TableReader, find, read_beside
from graphmem.seeding.traces import messages_of, split_judgements

Names = dict[str, Any]

CHATS = ("messages", "conversation", "input.messages", "body.messages", "values.messages")
"""Where the messages of a chat may stand."""
TOLD = (*("success", "resolved", "passed", "correct", "score", "reward", "rating", "feedback"),)
"""What of a chat may be its outcome."""
_BROKEN = ("infrastructure_error", "unexpected_error", "user_error")
"""Ends of a simulation of tau2-bench that are not the agent's doing."""

WRITING = ("book_", "cancel_", "update_", "send_", "transfer_")
"""How the names of tools begin that change an airline's or a shop's data."""

_COLUMNS = ("observations", "rewards", "valid_action", "thoughts")
_VERB = re.compile(
    r"\W*(?:execute\s*\[|sql\b)?\W*(SELECT|SHOW|DESC(?:RIBE)?|EXPLAIN|WITH|USE|INSERT|UPDATE"
    r"|DELETE|CREATE|ALTER|DROP|SET|CALL|SUBMIT)(?![a-z])",
    re.IGNORECASE,
)

_SAYS = frozenset({"message", "system", "recall", "agent_state_changed", "change_agent_state"})
"""Actions of OpenHands that are no tools."""
_CAUSES = ("cause", "action_id", "tool_call_id")

RESULT, TRAJECTORY = "result.json", Path("agent", "trajectory.json")
"""The files of a trial of Harbor."""
PARTS = 100
"""Most files in which one trajectory goes on."""


def read_chat_steps(run: Mapping[str, Any], names: Names) -> list[Step]:
    """Return the steps of a chat; ``first`` is what the user said first."""
    chat = next((value for path in CHATS if (value := find(run, path)) is not None), None)
    if chat is None:
        raise ValidationError("messages", None, "is missing in this run")
    messages = messages_of(chat)
    names["first"] = chats.question(messages)
    return list(chats.steps(messages))


def read_judged_steps(chat: Mapping[str, Any], names: Names) -> list[Step]:
    """Return the steps of a chat that says its outcome; ``said`` is feedback in other words."""
    for about in (chat, find(chat, "metadata")):
        told = {name: value for name in TOLD if (value := find(about, name)) is not None}
        feedback = find(about, "feedback.score")
        told |= {} if feedback is None else {"feedback": feedback}
        names["outcomes"], names["unknown"] = split_judgements(told)
        if told:
            break
    words = find(chat, "feedback")
    names["said"] = words if isinstance(words, str) else None
    return read_chat_steps(chat, names)


def read_simulated_steps(run: Mapping[str, Any], names: Names) -> list[Step]:
    """Return the steps of a simulation, of a ``task``; one that broke has no ``reward``."""
    tasks = find(names["key"], "tasks") or ()
    names["task"] = next((task for task in tasks if task["id"] == run["task_id"]), None)
    broken = run.get("termination_reason") in _BROKEN
    names["reward"] = None if broken else find(run, "reward_info.reward")
    return read_chat_steps(run, names)


def read_tau_steps(run: Mapping[str, Any], _: Names) -> list[Step]:
    """Return the steps of a run of tau-bench."""
    return list(chats.steps(run["traj"], is_error=lambda output: output.startswith("Error")))


def name_tau_strategies(steps: Sequence[Step], _: Names) -> list[str]:
    """Return the strategies of a run: all its writing tools in order (``writes:``), each tool."""
    tools = chats.tools(steps)
    writing = chats.in_order(tool for tool in tools if tool.startswith(WRITING))
    return [f"writes: {writing or 'nothing'}", *dict.fromkeys(tools)]


def read_sql_steps(run: Mapping[str, Any], names: Names) -> list[Step]:
    """Return the steps of a run of InterCode, whose history has a list for each column."""
    names["words"] = re.sub(r"^ic_[a-z]+_", "", names["stem"]).replace("_", " ")
    history = run["turn_history"]
    beside = zip_longest(*(history.get(name) or () for name in _COLUMNS))
    rows = zip(history["actions"], chain(beside, repeat((None,) * len(_COLUMNS))), strict=False)
    steps = []
    for action, (observation, reward, valid, thought) in rows:
        text = action if isinstance(action, str) else canonical_json(action)
        output = observation if isinstance(observation, str) else canonical_json(observation)
        done = {"statement": text, "valid": valid, "thought": thought}
        steps.append(
            Step(
                action_type=name_sql_kind(text),
                action={name: value for name, value in done.items() if value is not None},
                observation=None if observation is None else cut_text(output),
                reward=None if reward is None else float(reward),
                error=output if output.startswith("Error executing query") else None,
            )
        )
    return steps


def name_sql_kind(action: str) -> str:
    """Return the kind of a statement: its verb in capitals, or ``(no SQL)``."""
    match = _VERB.match(action)
    verb = match[1].upper() if match else "(no SQL)"
    return "DESCRIBE" if verb == "DESC" else verb


def name_sql_strategies(steps: Sequence[Step], names: Names) -> list[str]:
    """Return the set-up, which the name of the file tells, and the kinds of statements."""
    return list(dict.fromkeys([names["setup"], *(step.action_type for step in steps)]))


def read_event_steps(run: Mapping[str, Any], names: Names) -> list[Step]:
    """Return the steps of a history of OpenHands; ``first`` is what the user said first.

    An observation names the action that caused it, or follows it.
    """
    done: list[dict[str, Any]] = []
    by_id: dict[str, dict[str, Any]] = {}
    history = run.get("history") or ()
    for event in (one for item in history for one in (item if isinstance(item, list) else [item])):
        name = event.get("tool_name" if "kind" in event else "action")
        if event.get("kind") == "MessageEvent":
            name = "message"
        if "observation" in event or event.get("kind") == "AgentErrorEvent":
            caused = [str(event[key]) for key in _CAUSES if event.get(key) is not None]
            steps = [by_id[key] for key in caused if key in by_id] or ([] if caused else done[-1:])
            if steps and "observation" not in steps[0]:
                steps[0] |= _read_observation(event)
        elif event.get("source") == "user":
            names["first"] = names.get("first") or _read_message(event)
        elif name and name not in _SAYS:
            done.append({"action_type": name, "action": event.get("args", event.get("action"))})
            ids = [event[key] for key in ("id", "tool_call_id") if event.get(key) is not None]
            by_id |= dict.fromkeys(map(str, ids), done[-1])
        elif event.get("source") == "agent" and name == "message" and _read_message(event):
            done.append({"action_type": REPLY, "action": _read_message(event)})
    return [Step(**step) for step in done]


def _read_observation(event: Mapping[str, Any]) -> dict[str, Any]:
    output: Any = event.get("observation", event.get("error"))
    failed = "observation" not in event
    if "kind" not in event:
        output, failed = event.get("content"), output == "error"
    elif isinstance(output, Mapping):
        output, failed = output.get("content"), bool(output.get("is_error"))
    text = cut_text(text_of(output))
    return {"observation": text, "error": text if failed else None}


def _read_message(event: Mapping[str, Any]) -> str | None:
    said = (find(event, path) for path in ("llm_message.content", "args.content", "message"))
    return text_of(next((one for one in said if one is not None), None))


def find_trial_logs(folder: Path) -> list[Path] | None:
    """Return the results (else trajectories) of trials in a folder of Harbor."""
    for path in (folder / RESULT, folder / TRAJECTORY):
        if path.is_file():
            with path.open("rb") as file:
                if HARBOR.table.marks.fit(file.read(HEAD)):
                    return [path]
            break
    logs = [find_trial_logs(child) for child in sorted(folder.iterdir()) if child.is_dir()]
    return [path for one in logs for path in one or ()] or None


def join_trial(first: Any, origin: Origin) -> dict[str, Any]:
    """Return the result of a trial with its trajectory, and all parts of that."""
    result, part = (None, first) if "schema_version" in first else (first, None)
    folder = origin.path.absolute().parent if origin.path else None
    if result is not None and folder is not None:
        part = read_beside(folder / TRAJECTORY, origin.limits)
        folder /= TRAJECTORY.parent
    whole, turns = part, []
    for _ in range(PARTS):
        if part is None:
            break
        turns += [turn for turn in part["steps"] if not turn.get("is_copied_context")]
        after = part.get("continued_trajectory_ref")
        part = read_beside(folder / Path(after).name, origin.limits) if after and folder else None
    return {**(result or {}), "trajectory": whole and {**whole, "steps": turns}}


def read_trial_steps(trial: Mapping[str, Any], names: Names) -> list[Step] | None:
    """Return the steps of a trajectory; ``first`` is what the user said first."""
    trajectory = trial["trajectory"]
    if trajectory is None:
        return None
    version = trajectory.get("schema_version", "ATIF-v1.0")
    if not version.startswith("ATIF-v1."):
        raise ValidationError("schema_version", version, "is not read", "ATIF-v1.0 to 1.8 are")
    questions = (
        text_of(one.get("message")) for one in trajectory["steps"] if one["source"] == "user"
    )
    names["first"] = next(filter(None, questions), None)
    return list(_yield_trial_steps(trajectory["steps"]))


def _yield_trial_steps(turns: Sequence[Mapping[str, Any]]) -> Iterator[Step]:
    for turn in turns:
        if turn["source"] != "agent":
            continue
        results = list((turn.get("observation") or {}).get("results") or ())
        named = any(one.get("source_call_id") for one in results)
        calls = turn.get("tool_calls") or ()
        for at, call in enumerate(calls):
            own = [one for one in results if one.get("source_call_id") == call["tool_call_id"]]
            if not named:  # by order; the last call gets the rest
                own = own or list(islice(results, at, None if at == len(calls) - 1 else at + 1))
            yield Step(
                action_type=call["function_name"],
                action=call.get("arguments"),
                observation=_join_results(own),
            )
        message = text_of(turn.get("message"))
        if not calls and (message or results):
            yield Step(action_type=REPLY, action=message, observation=_join_results(results))


def _join_results(results: Sequence[Mapping[str, Any]]) -> str | None:
    output = [words for one in results if (words := text_of(one.get("content"))) is not None]
    return cut_text("\n".join(output)) if output else None


def name_trial_strategies(steps: Sequence[Step] | None, names: Names) -> list[str] | None:
    """Return the set-up of a trial whose steps are not known."""
    return [names["setup"]] if steps is None and names["setup"] else None


HARBOR = TableReader("harbor", None, join_trial, read_trial_steps, name_trial_strategies)
FORMATS = (
    HARBOR.make_format(logs=find_trial_logs),
    TableReader("intercode", steps=read_sql_steps, strategy=name_sql_strategies).make_format(),
    TableReader("openai-chat", steps=read_judged_steps).make_format(),
    TableReader("openhands", steps=read_event_steps).make_format(),
    TableReader("swe-agent").make_format(),
    TableReader("tau-bench", steps=read_tau_steps, strategy=name_tau_strategies).make_format(),
    TableReader("tau2", steps=read_simulated_steps).make_format(),
    TableReader("terminal-bench").make_format(),
)
