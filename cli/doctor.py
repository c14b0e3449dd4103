"""The `doctor` command: finds what does not work and prints how to repair it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from typing import Annotated, Any

from cli import render
from cli.command import command
from cli.common import EXIT_FAILED, local_time
from cli.inputs import service_of
from cli.options import Common, TokenFileOption, UrlOption, flag
from cli.output import Output
from datasources.base import Finding
from graphrag.app.diagnostics import examine
from graphrag.client.rest import NodiusClient
from graphrag.config import Settings

_STYLES = {"ok": "green", "warning": "yellow", "error": "red"}


@command()
async def doctor(
    common: Common,
    settings: Settings,
    ask: Annotated[
        bool, flag("--ask", "Also send the model a short question and time an embedding.")
    ] = False,
    calls: Annotated[
        bool, flag("--calls", "Show the latest tool calls of a running service instead.")
    ] = False,
    url: UrlOption = None,
    token_file: TokenFileOption = None,
) -> Output:
    """Check database, embeddings, tokenizer, model, connections. Ends with 1 if something fails."""
    if calls:
        address, token = service_of(settings, url, token_file)
        return await _calls(address, token, common.workspace)
    return findings_output(await examine(settings, ask=ask))


async def _calls(address: str, token: str | None, workspace: str | None) -> Output:
    async with NodiusClient(address, token=token, workspace=workspace) as client:
        calls = (await client.get("tool-calls"))["calls"]
    columns = ["time", "tool", "ms", "turn", "outcome", "conversation"]
    rows = [_call_row(call) for call in calls]
    return Output(
        document=calls,
        text=partial(render.table, columns, rows, numbers=[2])
        if calls
        else partial(render.note, "No tool was called since the service started."),
    )


def _call_row(call: dict[str, Any]) -> list[Any]:
    return [
        local_time(call["time"], "seconds"),
        call["tool"],
        call["ms"],
        f"{call['turn']}.{call['round']}",
        ": ".join(filter(None, (call["outcome"], call.get("error")))),
        call["threadId"],
    ]


def findings_output(findings: Sequence[Finding]) -> Output:
    """Returns findings with their remedies; it fails if one is an error."""

    def show() -> None:
        for finding in findings:
            text = f"{finding.status:<8}{finding.name}: {finding.detail}"
            render.line(text, _STYLES[finding.status])
            if finding.fix:
                render.line(f"{'':8}→ {finding.fix}")

    failed = any(finding.status == "error" for finding in findings)
    return Output(
        document=[asdict(finding) for finding in findings],
        text=show,
        exit_code=EXIT_FAILED if failed else 0,
    )
