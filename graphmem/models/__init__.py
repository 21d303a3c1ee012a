"""Pydantic models of all inputs and outputs."""
