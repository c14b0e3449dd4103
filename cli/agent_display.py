"""How agents, their mistakes and the lists they come from are shown on a terminal and to a script."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NoReturn, cast

import typer

from cli import render
from cli.common import EXIT_USAGE, Common
from graphrag.agents.agent_view import AgentView
from graphrag.agents.document_check import CheckedDocument
from graphrag.agents.errors import InvalidAgent
from graphrag.agents.sync import SyncReport
from tools.http.problems import DocumentProblem

HEALTH_STYLES = {"ok": "green", "degraded": "yellow", "failed": "red"}


def health_text(view: AgentView) -> str:
    return f"{view.health} ({', '.join(view.reasons)})" if view.reasons else view.health


def problem_text(problem: DocumentProblem) -> str:
    column = "" if problem.column is None else f", column {problem.column}"
    allowed = "" if problem.allowed is None else f"; allowed: {problem.allowed}"
    return f"{problem.where or 'document'}{column}: {problem.what} ({problem.code}){allowed}"


def problem_facts(problem: DocumentProblem) -> dict[str, Any]:
    return {name: fact for name, fact in asdict(problem).items() if fact is not None}


def checked_facts(file: Path, checked: CheckedDocument, secrets: dict[str, bool]) -> dict[str, Any]:
    return {
        "file": str(file),
        "ok": not checked.errors,
        "errors": [problem_facts(problem) for problem in checked.errors],
        "warnings": [problem_facts(problem) for problem in checked.warnings],
        "secrets": {name: "present" if there else "missing" for name, there in secrets.items()},
    }


def show_errors(named: str, exc: InvalidAgent) -> NoReturn:
    """Print every error and end the program."""
    show_problems(named, exc)
    raise typer.Exit(EXIT_USAGE)


def show_problems(named: str, exc: InvalidAgent) -> None:
    for problem in cast(Sequence[DocumentProblem], exc.errors):
        render.fault(f"{named}: error: {problem_text(problem)}")


def show_state(common: Common, view: AgentView) -> None:
    common.say(
        view.to_document(),
        f"{view.agent.agent_id}: {view.state}, version {view.agent.version}, {health_text(view)}",
    )


def show_report(common: Common, report: SyncReport) -> None:
    if common.as_json:
        render.json(report.to_document())
        return
    if report.error is None:
        done = [f"{report.unchanged} unchanged"]
        for word in ("created", "changed", "started", "stopped", "kept"):
            names: list[str] = getattr(report, word)
            if names:
                done.append(f"{len(names)} {word} ({', '.join(names[:5])}{', …' if len(names) > 5 else ''})")
        would = "would be: " if report.dry_run else ""
        render.line(f"{report.source}: {report.listed} listed; {would}{', '.join(done)}")
    show_trouble(report.to_document())


def show_trouble(report: dict[str, Any]) -> None:
    """Print why a list was not followed, and which of its items make no agent."""
    if report.get("error"):
        render.fault(f"{report['source']}: nothing was changed: {report['error']}")
    for broken in report.get("broken", ()):
        render.fault(f"{report['source']}: {broken['id'] or '?'}: {broken['what']}")
