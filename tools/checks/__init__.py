"""Finds what is wrong with a graph, without a model: rules are data (`rules.toml`) and
one function each.

From outside: `check`, `Checks`, `GraphFinding`, `CheckedGraph`.
"""

from __future__ import annotations

from tools.checks.checked_graph import CheckedGraph
from tools.checks.checking import Checks, GraphFinding, check

__all__ = ["CheckedGraph", "Checks", "GraphFinding", "check"]
