"""Prepared automations as data: `templates.toml` holds schedule, mode and budget, and words by language."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Any, Literal

from pydantic.alias_generators import to_camel

from graphrag.i18n import Language


@dataclass(frozen=True, slots=True, kw_only=True)
class AutomationTemplate:
    """A prepared automation in one language; people change what they want before it is added.

    `about` is one sentence for people, `message` what the run is to do. `budget` is by fields of `Budget`.
    """

    id: str
    name: str
    about: str
    message: str
    cron: str
    mode: Literal["report", "propose"]
    only_if_changed: bool = True
    budget: Mapping[str, int | float] = field(default_factory=dict[str, int | float])

    def fields(self, graph_key: str) -> dict[str, Any]:
        """Return the fields of a new automation of a graph, as `draft_of` reads them."""
        budget = {to_camel(name): value for name, value in self.budget.items()}
        return {
            "graphKey": graph_key,
            "name": self.name,
            "message": self.message,
            "cron": self.cron,
            "mode": self.mode,
            "onlyIfChanged": self.only_if_changed,
            "budget": budget,
        }


@cache
def templates(language: Language) -> Mapping[str, AutomationTemplate]:
    """Return the templates of a language by their ids, in the order of the file."""
    raw: dict[str, dict[str, Any]] = tomllib.loads(
        resources.files("graphrag.automations").joinpath("templates.toml").read_text("utf-8")
    )
    found: dict[str, AutomationTemplate] = {}
    for key, table in raw.items():
        common = {name: value for name, value in table.items() if name not in ("en", "fr")}
        words = {name: value.strip() for name, value in table[language].items()}
        found[key] = AutomationTemplate(id=key, **common, **words)
    return found
