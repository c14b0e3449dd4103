"""Finds the word with which a conversation ends."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from graphrag.agents.compiled_agent import CompiledAgent


def outcome_of(agent: CompiledAgent, ctx: Mapping[str, Any]) -> str | None:
    """Return the outcome of the first rule whose flag is true, or that has none; None without such a rule."""
    for rule in agent.outcome_rules:
        if rule.flag is None or ctx.get(rule.flag) is True:
            return rule.outcome
    return None
