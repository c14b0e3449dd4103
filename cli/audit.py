"""The commands `audit` and `audit verify`: show the audit log and check that it is intact."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from cli import render
from cli.command import command
from cli.common import EXIT_FAILED, local_time
from cli.options import LimitOption, OfGraphOption, option
from cli.output import Output, listing
from graphrag.app.wiring import Services
from graphrag.approvals.audit import Entry
from graphrag.i18n import Language, text

audit = typer.Typer(
    help="See the audit log, newest first, or verify it.", invoke_without_command=True
)


@command(audit)
async def show_audit(
    services: Services, language: Language, graph: OfGraphOption = None, limit: LimitOption = 100
) -> Output:
    """Show proposals, decisions and changes, newest first, with who made them."""
    entries = await services.approvals.audit.entries(graph_key=graph, limit=limit)
    if graph is not None and not entries:  # a deleted graph has entries
        await services.source.get_graph(graph)
    return listing(
        [entry.to_document() for entry in entries],
        ["number", "when", "event", "by", "asked by", "graph", "approval", "changes"],
        [_row(entry, language) for entry in entries],
        empty="Nothing has been decided yet.",
        numbers=[0],
        folded=7,
    )


def _row(entry: Entry, language: Language) -> list[Any]:
    facts = entry.facts
    changes: Mapping[str, Any] = facts.get("changes") or {}
    shown = "; ".join(
        f"{text(f'keys_{kind}', language)}: {', '.join(keys)}" for kind, keys in changes.items()
    )
    names = ("event", "userId", "asker", "graphKey", "approvalId")
    return [entry.sequence, local_time(entry.at), *(facts.get(name, "") for name in names), shown]


@command(audit, "verify")
async def verify(
    services: Services,
    head: Annotated[
        str | None, option("--head", "HASH", "An earlier head, which must be in the chain.")
    ] = None,
) -> Output:
    """Check that no entry was changed, removed, added or moved. Keep the printed head elsewhere
    for the next check.
    """
    result = await services.approvals.audit.verify(noted=head)

    def show() -> None:
        if result.is_sound:
            render.line(f"The audit log is sound: {result.entries} entries, head {result.head}")
        for fault in result.faults:
            render.fault(fault)

    facts = {"entries": result.entries, "head": result.head, "faults": list(result.faults)}
    return Output(
        document={"sound": result.is_sound, **facts},
        text=show,
        exit_code=0 if result.is_sound else EXIT_FAILED,
    )
