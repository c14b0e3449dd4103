"""The `doctor` command: what works here, what is missing and how to get it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated, Any

import typer

from cli import render
from cli.common import EXIT_FAILED, exit_codes, local_time, service_of
from cli.options import Common, TokenFileOption, UrlOption, command, flag
from datasources.base import Finding
from graphrag.app.diagnostics import examine
from graphrag.client.rest import NodiusClient

_STYLES = {"ok": "green", "warning": "yellow", "error": "red"}


@command()
def doctor(
    common: Common,
    ask: Annotated[
        bool, flag("--ask", "Ask the model a short question and time an embedding, too.")
    ] = False,
    calls: Annotated[
        bool, flag("--calls", "Show the last calls of tools in a running service instead.")
    ] = False,
    url: UrlOption = None,
    token_file: TokenFileOption = None,
) -> None:
    """Check database, embeddings, tokenizer and model. Ends with 1 when something is broken."""
    if calls:
        settings = common.settings()
        work = _calls(*service_of(settings, url, token_file), common.workspace)
        with exit_codes(settings.language):
            found = asyncio.run(work)
        if common.as_json:
            render.json(found)
        elif found:
            columns = ["time", "tool", "ms", "turn", "outcome", "conversation"]
            render.table(columns, [_call_row(one) for one in found], numbers=[2])
        else:
            render.note("No tool was called since the service started.")
        return
    show_findings(asyncio.run(examine(common.settings(), ask=ask)), as_json=common.as_json)


async def _calls(address: str, token: str | None, workspace: str | None) -> list[dict[str, Any]]:
    async with NodiusClient(address, token=token, workspace=workspace) as client:
        return (await client.get("tool-calls"))["calls"]


def _call_row(one: dict[str, Any]) -> list[Any]:
    outcome = ": ".join(filter(None, (one["outcome"], one.get("error"))))
    turn = f"{one['turn']}.{one['round']}"
    return [
        local_time(one["time"], "seconds"),
        one["tool"],
        one["ms"],
        turn,
        outcome,
        one["threadId"],
    ]


def show_findings(findings: Sequence[Finding], *, as_json: bool) -> None:
    """Print findings, each with its remedy; end the program with 1 when one is an error."""
    if as_json:
        render.json([asdict(finding) for finding in findings])
    else:
        for finding in findings:
            render.line(
                f"{finding.status:<8}{finding.name}: {finding.detail}", _STYLES[finding.status]
            )
            if finding.fix:
                render.line(f"{'':8}→ {finding.fix}")
    if any(finding.status == "error" for finding in findings):
        raise typer.Exit(EXIT_FAILED)
