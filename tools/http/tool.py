"""Creates the tool that a model can call from an HTTP tool of a document."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tools.base import DescribedArguments, Problem, Tool, ToolContext, ToolError, ToolResult
from tools.compact import cut
from tools.http.compiled import CompiledTool
from tools.http.executor import HttpExecutor
from tools.http.filters import compact
from tools.http.scope import ConversationValues
from tools.http.tool_run import ToolOutcome

RESULT_CHARS = 16_000
STORING_S = 5.0  # added to the timeout of a tool for storing its changes


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """The declaration of a function for the model."""

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
    """Returns a tool that the model can call in the conversation of `values`.

    Each outcome is stored in `outcomes` by call id.
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
