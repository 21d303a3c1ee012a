"""The words among which arguments and options choose.

The command line shows them, so this module imports nothing that takes time.
"""

from __future__ import annotations

from typing import Literal, get_args

ItemKind = Literal["strategy", "heuristic", "anti-pattern", "rule", "policy"]
"""What can be explained."""
NodeKind = Literal[
    "strategy", "task", "heuristic", "anti-pattern", "rule", "policy", "state", "agent", "episode"
]
"""What a network has as nodes."""
FileFormat = Literal["sentinel", "jsonl"]  # what can be imported
ExportFormat = Literal["sentinel", "jsonl", "neo4j"]
SkillForm = Literal["skills", "agents-md", "playbook", "report"]
"""As what can be written what was learned."""
ITEM_KINDS: tuple[ItemKind, ...] = get_args(ItemKind)
NODE_KINDS: tuple[NodeKind, ...] = get_args(NodeKind)
FILE_FORMATS: tuple[FileFormat, ...] = get_args(FileFormat)
EXPORT_FORMATS: tuple[ExportFormat, ...] = get_args(ExportFormat)
SKILL_FORMS: tuple[SkillForm, ...] = get_args(SkillForm)
