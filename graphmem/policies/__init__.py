"""Policies: what to do in a state, learned by TD(0) from rewards and counted from outcomes."""

from __future__ import annotations

from graphmem.policies.base import Action
from graphmem.policies.crystallizing import Crystallizing
from graphmem.policies.links import Links
from graphmem.policies.updates import Updates
from graphmem.policies.values import Values

__all__ = ["Action", "Policies"]


class Policies(Values, Updates, Links, Crystallizing):
    """Learns, ranks and links the policies of one namespace: ``memory.policies``.

    A state is a dict of features or a fingerprint. An action is a type, with ``spec`` (any JSON) if
    the type alone does not identify it. Each agent has its own policies.
    """
