"""The `doctor` command: what works here, what is missing and how to get it."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from typing import Annotated

import typer

from cli import render
from cli.common import (
    EXIT_FAILED,
    DbOption,
    JsonOption,
    LanguageOption,
    WorkspaceOption,
    settings_of,
)
from graphrag.app.diagnostics import examine

_STYLES = {"ok": "green", "warning": "yellow", "error": "red"}


def doctor(
    ask: Annotated[
        bool, typer.Option("--ask", help="Ask the model a short question and time an embedding, too.")
    ] = False,
    as_json: JsonOption = False,
    db: DbOption = None,
    workspace: WorkspaceOption = None,
    lang: LanguageOption = None,
) -> None:
    """Check database, embeddings, tokenizer and model. Ends with 1 when something is broken."""
    settings = settings_of(db, workspace, lang)
    findings = asyncio.run(examine(settings, ask=ask))
    if as_json:
        render.json([asdict(finding) for finding in findings])
    else:
        for finding in findings:
            render.line(f"{finding.status:<8}{finding.name}: {finding.detail}", _STYLES[finding.status])
            if finding.fix:
                render.line(f"{'':8}→ {finding.fix}")
    if any(finding.status == "error" for finding in findings):
        raise typer.Exit(EXIT_FAILED)
