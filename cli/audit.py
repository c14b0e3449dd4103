"""The command `audit`: who asked for what, who decided, what changed; and whether the
log is whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from cli import render
from cli.common import EXIT_FAILED, local_time
from cli.options import Common, LimitOption, OfGraphOption, command, option
from graphrag.app.wiring import Services
from graphrag.approvals.audit import Entry
from graphrag.i18n import Language, text

audit = typer.Typer(
    help="See the audit log, newest first, or verify it.", invoke_without_command=True
)


@command(audit)
async def show_audit(
    common: Common, services: Services, graph: OfGraphOption = None, limit: LimitOption = 100
) -> None:
    """Show who asked for what, who decided, and what changed, newest first."""
    entries = await services.approvals.audit.entries(graph_key=graph, limit=limit)
    if graph is not None and not entries:  # of a graph that was deleted there are entries
        await services.source.get_graph(graph)
    common.show_list(
        [entry.to_document() for entry in entries],
        ["number", "when", "event", "by", "asked by", "graph", "approval", "changes"],
        [_row(entry, services.settings.language) for entry in entries],
        none="Nothing has been decided yet.",
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
    common: Common,
    services: Services,
    head: Annotated[
        str | None, option("--head", "HASH", "A head noted earlier, which must be in the chain.")
    ] = None,
) -> None:
    """Check that no entry was changed, removed, added or moved. Note the
    head it prints elsewhere.
    """
    found = await services.approvals.audit.verify(noted=head)
    if common.as_json:
        document = {"entries": found.entries, "head": found.head, "faults": list(found.faults)}
        render.json({"sound": found.is_sound, **document})
    elif found.is_sound:
        render.line(f"The audit log is sound: {found.entries} entries, head {found.head}")
    if not found.is_sound:
        for fault in () if common.as_json else found.faults:
            render.fault(fault)
        raise typer.Exit(EXIT_FAILED)
