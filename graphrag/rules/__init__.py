"""Answers without a language model: patterns of plain questions and commands, read
by one interpreter.

A provider like any other, chosen by the wiring alone. Patterns and texts are
data: `rules.toml` of each language.
From outside: the names of `__all__`.
"""

from __future__ import annotations

from graphrag.rules.provider import RulesProvider

__all__ = ["RulesProvider"]
