"""The tools that propose changes, and the checks of what they propose; none of
them changes anything.

From outside: the names in `__all__`, and `graph_reads`.
"""

from __future__ import annotations

from tools.actions.snapshot import Snapshot
from tools.write_tools.checks import find_problems
from tools.write_tools.graph_reads import load_snapshot
from tools.write_tools.propose_tools import WRITE_TOOLS
from tools.write_tools.renames import broken_references, node_with_renames, with_references
from tools.write_tools.resolve import resolve_action

__all__ = [
    "WRITE_TOOLS",
    "Snapshot",
    "broken_references",
    "find_problems",
    "load_snapshot",
    "node_with_renames",
    "resolve_action",
    "with_references",
]
