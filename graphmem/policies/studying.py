"""TD learning from recorded episodes, each once."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Annotated, Any

from pydantic import Field

from graphmem.graph.arguments import check_function
from graphmem.graph.graph import Transaction
from graphmem.ids import node_id
from graphmem.models.fields import Input, Unit
from graphmem.models.policies import EpisodesLearned
from graphmem.policies.base import PolicyBase
from graphmem.policies.rebuilding import event_ids
from graphmem.policies.streams import Draft, PolicyKey, StateKey, apply, lock, open_nodes
from graphmem.store.port import Row

GROUP = "graphmem: learn episodes"
"""The group whose cursor in a stream marks the last learned episode."""
PAGE = 100


class Rates(Input):
    """The parameters of TD(0)."""

    alpha: Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)]
    gamma: Unit


class Studying(PolicyBase):
    """Learns from the steps of episodes."""

    def learn_episodes(
        self,
        agent: str | None = None,
        *,
        alpha: float | None = None,
        gamma: float | None = None,
        on_progress: Callable[[int], None] | None = None,
    ) -> EpisodesLearned:
        """Apply TD(0) to the steps of recorded episodes, in order of recording.

        A step counts if it has a state, a reward, and a next state or ``terminal``. Each episode is
        applied once, also with repeated or concurrent calls; erasing an episode removes its
        transitions. The time of a call depends on the number of new events.

        Args:
            agent: only this agent's episodes; default: all agents, each separately.
            alpha: learning rate in (0, 1]; default: the setting (0.1).
            gamma: discount in [0, 1]; default: the setting (0.95).
            on_progress: called after each transaction with the number of events read so far.

        Raises:
            ValidationError: alpha or gamma is out of range.
        """
        rates = self._rates(alpha, gamma)
        name = None if agent is None else self._agent(agent)
        check_function("on_progress", on_progress)
        rows = self._graph.read("events.cursors", group=GROUP, agent=name)
        pending = [row for row in rows if row["level"] is None]
        episodes = transitions = incomplete = looked = 0
        for stream in pending:
            more = True
            while more:
                done, counts = self._graph.transact(
                    lambda tx, stream=stream: self._page(tx, stream, rates)  # type: ignore[misc]
                )
                episodes, transitions = episodes + counts[0], transitions + counts[1]
                incomplete, looked = incomplete + counts[2], looked + done
                more = done == PAGE
                if on_progress:
                    on_progress(looked)
        return EpisodesLearned(episodes=episodes, transitions=transitions, incomplete=incomplete)

    def _page(
        self, tx: Transaction, stream: Row, rates: Mapping[str, float]
    ) -> tuple[int, tuple[int, int, int]]:
        """Apply the episodes among the next events; return the number of events."""
        cursor = node_id(tx.ns, "Cursor", GROUP, stream["stream"])
        tx.run("events.open_cursor", id=cursor, group=GROUP, stream=stream["stream"])
        lock(tx, [stream["stream"]])
        rows = tx.run("events.cursors", group=GROUP, agent=stream["agent"])
        here = [row for row in rows if row["stream"] == stream["stream"]]
        if not here:
            return 0, (0, 0, 0)
        first = here[0]["position"] + 1
        last = min(here[0]["last"], first + PAGE - 1)
        events = tx.run("events.read", ids=event_ids(stream["stream"], first, last))
        ids = [
            event["subject"]
            for event in sorted(events, key=lambda event: int(event["seq"]))
            if event["kind"] == "episode"
        ]
        counts = self._learn(tx, stream["agent"], ids, rates) if ids else (0, 0, 0)
        tx.run("events.move_cursor", id=cursor, position=last)
        return last - first + 1, counts

    def _learn(
        self, tx: Transaction, agent: str, ids: list[str], rates: Mapping[str, float]
    ) -> tuple[int, int, int]:
        steps: dict[str, list[Row]] = {}
        for row in tx.run("learning.steps_of", ids=ids):
            if row["state"] is not None:
                steps.setdefault(row["id"], []).append(row)
        draft = Draft(agent)
        keys: dict[str, PolicyKey] = {}
        states: dict[str, StateKey] = {}
        incomplete = 0
        for episode in ids:
            for step in steps.get(episode, ()):
                ends = bool(step["terminal"])
                if step["reward"] is None or (step["next_state"] is None and not ends):
                    incomplete += 1
                    continue
                key, after, fact = self._transition(agent, step, rates)
                keys[key.id] = key
                if after is not None:
                    states[after.id] = after
                draft.events.append(("transition", {**fact, "episode": episode}))
        if draft.events:
            open_nodes(tx, keys.values(), states.values())
            apply(tx, [draft], keys, states)
        return len(steps), len(draft.events), incomplete

    def _transition(
        self, agent: str, step: Row, rates: Mapping[str, float]
    ) -> tuple[PolicyKey, StateKey | None, dict[str, Any]]:
        ns = self._graph.ns
        place = StateKey.of(ns, json.loads(step["state"]))
        action = None if step["action"] is None else json.loads(step["action"])
        key = PolicyKey.of(ns, agent, place, step["action_type"], action)
        ends = bool(step["terminal"])
        after = None if ends else StateKey.of(ns, json.loads(step["next_state"]), "next_state")
        fact: dict[str, Any] = {
            "subject": key.id,
            "next_id": after.id if after else None,
            "next_state": after.fingerprint if after else None,
            "reward": float(step["reward"]),
            "terminal": ends,
            "next_max": None,
            "next_actions": None,
            "success": None,
            "at": None,
            **rates,
        }
        return key, after, fact

    def _rates(self, alpha: float | None, gamma: float | None) -> dict[str, float]:
        rates = Rates(
            alpha=self._graph.settings.alpha if alpha is None else alpha,
            gamma=self._graph.settings.gamma if gamma is None else gamma,
        )
        return {"alpha": rates.alpha, "gamma": rates.gamma}
