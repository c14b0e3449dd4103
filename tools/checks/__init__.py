"""Finds what is wrong with a graph, without a model: rules are data (`rules.toml`) and one function each.

From outside: `check`, `Checks`, `Finding`, `GraphView`.
"""

from __future__ import annotations

from tools.checks.checking import Checks, Finding, check
from tools.checks.view import GraphView

__all__ = ["Checks", "Finding", "GraphView", "check"]
