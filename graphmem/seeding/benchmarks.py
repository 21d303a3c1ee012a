"""Formats of benchmarks, chats and environments, and what their tables cannot say."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, islice, repeat, zip_longest
from pathlib import Path
from typing import Any, BinaryIO

from graphmem.errors import SeedingError, ValidationError
from graphmem.ids import canonical_json, digest
from graphmem.models.episodes import Step
from graphmem.seeding import chats
from graphmem.seeding.chats import REPLY, cut_text, text_of
from graphmem.seeding.formats import HEAD, Origin, Unsettled
from graphmem.seeding.reading import Limits
from graphmem.seeding.tables import Reading, TableReader, find, read_beside
from graphmem.seeding.traces import judge, messages_of, split_judgements

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

RETRIED = "You have attempted to answer following question before and failed"
"""The text that the prompt of a retry appends to the question, without a space."""
REFLEXION_ERRORS = ("Could not find", "Invalid Action", "Answer is INCORRECT")
"""How observations of Reflexion begin that are errors."""
MAX_LINE = 4 * 1024 * 1024
MAX_LINES = 100_000
"""Most lines of one attempt."""
MAX_QUESTIONS = 200_000
"""Most questions of one trial."""
_SECTIONS = ("CORRECT", "INCORRECT", "HALTED")
_HEADING = re.compile(r"BEGIN TRIAL (\d{1,9})\s*|-+ BEGIN (\w+) AGENTS -+\s*")
_PART = re.compile(r"^((Thought|Action|Observation) (\d{1,9}): ?)", re.MULTILINE)
_KIND = re.compile(r"\s*([A-Za-z]\w*)\s*\[")
_REFLECTED = re.compile(r"^[ \t]*Reflections:[ \t]*$", re.MULTILINE)
_ITEM = re.compile(r"^- ", re.MULTILINE)
_QUESTION, _END = "Question:", "Correct answer:"
_NEXT = {"Thought": "Action", "Action": "Observation"}

GYM = "gymnasium"
"""The field that each transition has; its value is the version of the form."""
GYM_VERSION = 1
Lines = list[dict[str, Any]]


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
        match = _VERB.match(text)
        verb = match[1].upper() if match else "(no SQL)"
        steps.append(
            Step(
                action_type="DESCRIBE" if verb == "DESC" else verb,
                action={name: value for name, value in done.items() if value is not None},
                observation=None if observation is None else cut_text(output),
                reward=None if reward is None else float(reward),
                error=output if output.startswith("Error executing query") else None,
            )
        )
    return steps


def name_sql_strategies(steps: Sequence[Step], names: Names) -> list[str]:
    """Return the set-up, which the name of the file tells, and the kinds of statements."""
    return list(dict.fromkeys([names["setup"], *(step.action_type for step in steps)]))


def read_event_steps(run: Mapping[str, Any], names: Names) -> list[Step]:
    """Return the steps of a history of OpenHands; ``first`` is what the user said first.

    An observation names the action that caused it, or follows it. A report has no outcome if the
    tests broke or took too long.
    """
    report = find(run, "test_result.report")
    unclear = find(report, "error_eval") or find(report, "test_timeout")
    names["outcomes"] = None if unclear else {"report": find(report, "resolved")}
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


def read_attempts(stream: BinaryIO, limits: Limits) -> Iterator[Reading]:
    """Yield the attempts that were run, each with the line number of its question."""
    solved: set[str] = set()
    known: set[str] = set()
    """Questions that were run in this trial, or solved before."""
    trial: int | None = None
    for number, size, attempt in _attempts(stream, limits):
        if attempt["trial"] != trial:
            known, trial = set(solved), attempt["trial"]
        if attempt["complete"]:
            key = digest(attempt["question"].encode("utf-8", "replace").decode())
            if key in known:
                continue
            known.add(key)
            if len(known) > MAX_QUESTIONS:
                raise SeedingError(f"a trial has over {MAX_QUESTIONS:,} questions")
            if attempt["section"] == "CORRECT":
                solved.add(key)
        too_long = limits.too_long if size > limits.record else None
        yield number, None, partial(_check_attempt, attempt, too_long)


def _check_attempt(attempt: dict[str, Any], too_long: str | None) -> dict[str, Any]:
    """Return an attempt that can be a record."""
    if too_long is not None:
        raise ValidationError("record", attempt["question"][:200], too_long)
    if attempt["trial"] is None or attempt["section"] not in _SECTIONS:
        problem = "the outcome is unknown: it lies outside of the known sections of a trial"
        raise ValidationError("success", attempt["section"], problem)
    if not attempt.pop("complete"):
        raise ValidationError(
            "record", attempt["question"], f"the attempt has no {_END!r} at its end"
        )
    return attempt


def read_attempt_steps(attempt: Mapping[str, Any], names: dict[str, Any]) -> list[Step]:
    """Return the steps of an attempt; ``names`` get the rest of its text."""
    names["prompt"], names["reflections"], steps = _split_attempt("\n".join(attempt["lines"]))
    if not steps:
        raise ValidationError("steps", None, "nothing was run in this trial")
    names["halted"] = "halted" if attempt["section"] == "HALTED" else None
    return steps


def name_attempt_strategies(steps: Sequence[Step], names: dict[str, Any]) -> list[str]:
    """Return the strategies of an attempt, from the kinds of its actions in order."""
    kinds = [step.action_type for step in steps if step.action_type != "Finish"]
    first = f"sequence: {chats.in_order(kinds)}" if kinds else "answers at once"
    return [first, *dict.fromkeys(kinds), *(["reflect"] if names["reflections"] else [])]


def _attempts(stream: BinaryIO, limits: Limits) -> Iterator[tuple[int, int, dict[str, Any]]]:
    """Yield the attempts of a log, with the line of the question, and how many bytes follow it."""
    trial: int | None = None
    section: str | None = None
    attempt: dict[str, Any] | None = None
    begun = size = 0
    fresh = True  # a question begins after a blank line, or if there is no attempt at the moment
    for number, raw in enumerate(iter(partial(stream.readline, MAX_LINE), b""), 1):
        # Invalid UTF-8 becomes lone surrogates, which an episode refuses.
        line = raw.decode("utf-8", "surrogateescape").rstrip("\r\n")
        heading = _HEADING.fullmatch(line)
        begins = fresh and line.startswith(_QUESTION)
        ends = line.startswith(_END)
        if attempt and (heading or begins or ends or len(attempt["lines"]) >= MAX_LINES):
            attempt["complete"] = ends
            yield begun, size, attempt
            attempt = None
        if heading and heading[1]:
            trial, section = int(heading[1]), None
        elif heading:
            section = heading[2]
        elif begins:
            question = line.removeprefix(_QUESTION).partition(RETRIED)[0].strip()
            attempt = {"question": question, "section": section, "trial": trial}
            attempt |= {"lines": [], "complete": False}
            begun, size = number, 0
        elif attempt:
            size += len(raw)
            if size <= limits.record:  # else it is refused
                attempt["lines"].append(line)
        fresh = attempt is None or not line.strip()
    if attempt:
        yield begun, size, attempt


def _split_attempt(text: str) -> tuple[str, list[str], list[Step]]:
    """Return other text, the reflections and the steps from the text behind a question."""
    before, *rest = _PART.split(text)
    steps: list[dict[str, str]] = []
    last = ""
    for at in range(0, len(rest), 4):
        mark, kind, number, said = rest[at : at + 4]
        begins = int(number) == len(steps) + 1 and kind != "Observation"
        if begins:
            steps.append({})
        if begins or (int(number) == len(steps) and _NEXT.get(last) == kind):
            last = kind
            steps[-1][kind] = said
        elif steps:
            steps[-1][last] += mark + said
        else:
            before += mark + said
    prompt, *told = _REFLECTED.split(before, maxsplit=1)
    reflections = [one.strip() for one in _ITEM.split("".join(told)) if one.strip()]
    return prompt.strip(), reflections, list(map(_make_attempt_step, steps))


def _make_attempt_step(parts: dict[str, str]) -> Step:
    texts = {name: said.strip() for name, said in parts.items()}
    action, output = texts.get("Action", ""), texts.get("Observation")
    match = _KIND.match(action)
    return Step(
        action_type=match[1] if match else "(other)",
        action={name.lower(): texts[name] for name in ("Thought", "Action") if name in texts},
        observation=chats.cut_text(output),
        error=output if output and output.startswith(REFLEXION_ERRORS) else None,
    )


def check_transition(line: dict[str, Any]) -> dict[str, Any]:
    """Return a transition, if it is one of a run."""
    if not isinstance(line.get("run"), str):
        raise ValidationError("run", None, "is missing: this is no transition of a run")
    if line.get(GYM) != GYM_VERSION:
        raise ValidationError(GYM, line.get(GYM), f"must be {GYM_VERSION}", "update graphmem")
    return line


def join_run(lines: Lines, _: Origin | None = None) -> dict[str, Any]:
    """Return a run: what its first and its last line say, and all lines."""
    first, last = lines[0], lines[-1]
    if not last.get("terminated") and not last.get("truncated") and "outcome" not in last:
        raise ValidationError("run", first["run"], "has no end: it was cut off")
    known = {"strategy": first.get("strategy") or [], "began": first.get("at")}
    return {**first, **last, **known, "lines": lines}


def read_run_steps(run: Mapping[str, Any], names: dict[str, Any]) -> list[Step]:
    """Return the steps of a run; ``return`` is the sum of their rewards."""
    lines = run["lines"]
    for place, line in enumerate(lines):
        if line["step"] != place:
            raise ValidationError("step", line["step"], f"must be {place}: a line is missing")
    outcome = judge(run.get("outcome"))
    if outcome is None and run.get("outcome") is not None:
        problem = "is neither a success, nor a score in [0, 1], nor null"
        raise ValidationError("outcome", run["outcome"], problem)
    names["outcomes"] = {"recorder": outcome}
    names["return"] = math.fsum(line["reward"] for line in lines)
    return list(map(make_run_step, lines))


def make_run_step(line: Mapping[str, Any]) -> Step:
    """Return the step of a transition."""
    ends = bool(line.get("terminated"))
    return Step(
        action_type=line["action"],
        action=line.get("spec"),
        reward=line["reward"],
        state=line["state"],
        next_state=None if ends else line["next_state"],
        terminal=ends,
    )


def read_run(lines: Lines) -> Unsettled:
    """Return the episode of a run."""
    return RUNS.make(join_run(lines), {"number": 1, "found": set()})


HARBOR = TableReader(
    "harbor", join=join_trial, steps=read_trial_steps, strategy=name_trial_strategies
)
RUNS = TableReader(GYM, prepare=check_transition, join=join_run, steps=read_run_steps)
FORMATS = (
    RUNS.make_format(),
    HARBOR.make_format(logs=find_trial_logs),
    TableReader("intercode", steps=read_sql_steps, strategy=name_sql_strategies).make_format(),
    TableReader("openai-chat", steps=read_judged_steps).make_format(),
    TableReader("openhands", steps=read_event_steps).make_format(),
    TableReader(
        "reflexion", read_attempts, steps=read_attempt_steps, strategy=name_attempt_strategies
    ).make_format(),
    TableReader("swe-agent").make_format(),
    TableReader("tau-bench", steps=read_tau_steps, strategy=name_tau_strategies).make_format(),
    TableReader("tau2", steps=read_simulated_steps).make_format(),
    TableReader("terminal-bench").make_format(),
)
