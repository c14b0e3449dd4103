"""Makes a tool that a model can call from an HTTP tool of a document."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tools.base import DescribedArguments, Tool
from tools.http.compiled import CompiledTool
from tools.http.executor import HttpExecutor, ToolOutcome
from tools.http.scope import ConversationValues

AfterTool = Callable[[str, str, ToolOutcome], Awaitable[None]]
"""Stores what a tool changed: (name, call id, outcome). Awaited before the model gets the result."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """How a function is declared to the model."""

    name: str
    description: str
    parameters: Mapping[str, Any]


def http_tool(
    compiled: CompiledTool,
    declaration: Declaration,
    executor: HttpExecutor,
    values: ConversationValues,
    *,
    after: AfterTool | None = None,
    result_chars: int = 16_000,
) -> Tool[DescribedArguments]:
    """Return the tool as a model can call it in the conversation of `values`."""
    raise NotImplementedError
