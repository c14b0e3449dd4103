"""Answers without a language model: patterns recognize plain questions and commands.

The rules are a provider like any other, chosen in the wiring. Patterns and texts are data:
`rules.toml` of each language.

Other packages import the names of `__all__`.
"""

from __future__ import annotations

from graphrag.rules.provider import RulesProvider

__all__ = ["RulesProvider"]
