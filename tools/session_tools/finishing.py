"""`finish_automation`: how a model ends a run that nobody watches."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from tools.base import Tool, ToolArguments, ToolContext, ToolResult

MAX_REPORT = 4_000


class FinishAutomation(ToolArguments):
    """How a run ended. Units: `report` in characters, Markdown."""

    outcome: Annotated[
        Literal["ok", "findings", "failed"],
        Field(
            description="ok: nothing to report; findings: something was found or proposed; failed: not done"
        ),
    ]
    report: Annotated[
        str, Field(min_length=1, max_length=MAX_REPORT, description="What was looked at, found and proposed")
    ]


async def _run(arguments: FinishAutomation, _: ToolContext) -> ToolResult:
    return ToolResult(text=f"Finished: {arguments.outcome}.", data=arguments)


FINISH_AUTOMATION = Tool(
    name="finish_automation",
    description=(
        "End this run with a report for the people who read it later. Call it once, when everything is read"
        " and proposed; nothing follows it."
    ),
    arguments=FinishAutomation,
    run=_run,
    example={"outcome": "findings", "report": "Two nodes are not reachable. I proposed to connect them."},
    sessions=frozenset({"automation"}),
)
