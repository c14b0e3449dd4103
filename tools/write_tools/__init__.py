"""The tools that propose changes, and the judgement of what they propose; none of them changes anything."""

from __future__ import annotations

from tools.base import ToolBox
from tools.write_tools.checks import Fault, find_faults
from tools.write_tools.graph_reads import Snapshot, load_snapshot
from tools.write_tools.renames import broken_references, with_references
from tools.write_tools.resolve import resolve_action
from tools.write_tools.tools import WRITE_TOOLS


def write_toolbox() -> ToolBox:
    """Return a box with every write tool."""
    return ToolBox(WRITE_TOOLS)


__all__ = [
    "WRITE_TOOLS",
    "Fault",
    "Snapshot",
    "broken_references",
    "find_faults",
    "load_snapshot",
    "resolve_action",
    "with_references",
    "write_toolbox",
]
