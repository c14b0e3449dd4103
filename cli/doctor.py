"""The `doctor` command: what works here, what is missing and how to get it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated

import typer

from cli import render
from cli.common import EXIT_FAILED, Common, command
from datasources.base import Finding
from graphrag.app.diagnostics import examine

_STYLES = {"ok": "green", "warning": "yellow", "error": "red"}


@command()
def doctor(
    common: Common,
    ask: Annotated[
        bool, typer.Option("--ask", help="Ask the model a short question and time an embedding, too.")
    ] = False,
) -> None:
    """Check database, embeddings, tokenizer and model. Ends with 1 when something is broken."""
    show_findings(asyncio.run(examine(common.settings(), ask=ask)), as_json=common.as_json)


def show_findings(findings: Sequence[Finding], *, as_json: bool) -> None:
    """Print findings, each with its remedy; end the program with 1 when one is an error."""
    if as_json:
        render.json([asdict(finding) for finding in findings])
    else:
        for finding in findings:
            render.line(f"{finding.status:<8}{finding.name}: {finding.detail}", _STYLES[finding.status])
            if finding.fix:
                render.line(f"{'':8}→ {finding.fix}")
    if any(finding.status == "error" for finding in findings):
        raise typer.Exit(EXIT_FAILED)
