"""The 19 operations by which editors change a document, and what undoes each."""

from __future__ import annotations

from datasources.instructions.instruction import GraphInstruction, Instruction, Op, read_instruction
from datasources.instructions.operations import IDENTITY_FIELDS, apply_instruction, inverse_of
from datasources.instructions.paths import json_fault

__all__ = [
    "IDENTITY_FIELDS",
    "GraphInstruction",
    "Instruction",
    "Op",
    "apply_instruction",
    "inverse_of",
    "json_fault",
    "read_instruction",
]
