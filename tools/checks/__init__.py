"""Finds errors in a graph by rules, without a model. Each rule is one function, a severity in
`rules.toml`, and a sentence in each `languages/*/checks.toml`.

Public: `check`, `Checks`, `GraphFinding`, `CheckedGraph`.
"""

from __future__ import annotations

from tools.checks.checked_graph import CheckedGraph
from tools.checks.checking import Checks, GraphFinding, check

__all__ = ["CheckedGraph", "Checks", "GraphFinding", "check"]
