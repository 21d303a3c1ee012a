"""Policies: what to do in a state, learned by TD(0) from rewards and counted from outcomes."""

from graphmem.policies.updates import Policies as Policies
