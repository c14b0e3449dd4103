"""Makes a tool that a model can call from an HTTP tool of a document."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tools.base import DescribedArguments, Problem, Tool, ToolContext, ToolError, ToolResult
from tools.compact import cut
from tools.http.compiled import CompiledTool
from tools.http.executor import HttpExecutor, ToolOutcome
from tools.http.filters import compact
from tools.http.scope import ConversationValues

RESULT_CHARS = 16_000
STORING_S = 5.0
"""Seconds for storing what a tool changed, beyond its own time."""


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
    outcomes: dict[str, ToolOutcome] | None = None,
) -> Tool[DescribedArguments]:
    """Return the tool as a model can call it in the conversation of `values`.

    `outcomes` receives what it gave, by call id.
    """

    async def run(arguments: DescribedArguments, context: ToolContext) -> ToolResult:
        outcome = await executor.run(compiled, arguments.values, values, context.call_id)
        if outcomes is not None:
            outcomes[context.call_id] = outcome
        value = outcome.value
        text = executor.secrets.mask(value if isinstance(value, str) else compact(value))
        problem = (
            ToolError(code="unavailable", problems=(Problem(what=outcome.code),))
            if outcome.code
            else None
        )
        return ToolResult(text=cut(text, RESULT_CHARS), error=problem)

    return Tool(
        name=declaration.name,
        description=declaration.description or compiled.model.description,
        arguments=DescribedArguments,
        parameters=declaration.parameters,
        run=run,
        effect=compiled.effect,
        timeout_s=compiled.timeout_s + STORING_S,
        reusable=False,
    )
