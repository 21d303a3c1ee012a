"""Policies: what to do in a state, learned by TD(0) from rewards and counted from outcomes."""

from __future__ import annotations

from graphmem.policies.policies import Policies
from graphmem.policies.values import Action

__all__ = ["Action", "Policies"]
