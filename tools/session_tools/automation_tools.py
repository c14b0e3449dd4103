"""Tools of runs that nobody watches: `finish_automation` ends one, `refresh_embeddings` renews vectors."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from tools.base import Tool, ToolArguments, ToolContext, ToolResult
from tools.toon import encode

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


Renew = Callable[[str], Awaitable[Mapping[str, Any]]]
"""Queues what is missing or outdated of a graph; returns `nodes`, `missing`, `queued` and `model`."""


class RefreshEmbeddings(ToolArguments):
    pass


def refresh_embeddings(renew: Renew) -> Tool[RefreshEmbeddings]:
    """Return the tool; it changes nothing that people see of a graph."""

    async def run(_: RefreshEmbeddings, context: ToolContext) -> ToolResult:
        facts = dict(await renew(context.graph_key))
        done = "made in the background" if facts.get("queued") else "left as they are"
        text = f"{encode(facts)}\nVectors that are missing, or of an older text of their node, are {done}."
        return ToolResult(text=text, data=facts)

    return Tool(
        name="refresh_embeddings",
        description="Has missing and outdated embeddings of the graph renewed; says how many are missing.",
        arguments=RefreshEmbeddings,
        run=run,
        sessions=frozenset({"automation"}),
    )
