"""Prepared automations as data: schedules in `templates.toml`, texts in `automations.toml` of each
language.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any, Literal

from pydantic import Field
from pydantic.alias_generators import to_camel

from graphrag.answer_body import AnswerBody
from graphrag.i18n import Language
from languages.reading import read_tables


class AutomationTemplate(AnswerBody):
    """A prepared automation with the fields of a new one. `about`: its purpose."""

    id: str
    name: str
    about: str
    message: str
    cron: str
    mode: Literal["report", "propose"]
    only_if_changed: bool = True
    budget: dict[str, Any] = Field(default_factory=dict[str, Any])

    def fields(self, graph_key: str) -> dict[str, Any]:
        """Returns the fields of a new automation for a graph, as AutomationDraft reads them."""
        return {"graphKey": graph_key, **self.model_dump(by_alias=True, exclude={"id", "about"})}


@cache
def templates(language: Language) -> Mapping[str, AutomationTemplate]:
    """Returns the templates of a language by their ids, in the order of the file."""
    raw: dict[str, dict[str, Any]] = tomllib.loads(
        resources.files("graphrag.automations").joinpath("templates.toml").read_text("utf-8")
    )
    texts = read_tables(language, "automations.toml")
    by_id: dict[str, AutomationTemplate] = {}
    for key, table in raw.items():
        words = {name: value.strip() for name, value in texts[key].items()}
        budget = {to_camel(name): limit for name, limit in table.pop("budget", {}).items()}
        by_id[key] = AutomationTemplate(id=key, budget=budget, **table, **words)
    return by_id
