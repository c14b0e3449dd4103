"""The commands `review`, `undo` and `audit`: what waits for a decision, what was decided, what came of it."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, cast, get_args

import orjson
import typer

from cli import render
from cli.common import (
    EXIT_FAILED,
    EXIT_NOTHING,
    EXIT_USAGE,
    DbOption,
    JsonOption,
    LanguageOption,
    WorkspaceOption,
    fail,
    graph_or_fail,
    run,
    settings_of,
)
from cli.diff import print_preview
from graphrag.app.wiring import Services
from graphrag.approvals import (
    Approval,
    ApprovalNotFound,
    Approvals,
    Approve,
    ApproveEdited,
    Decision,
    Reject,
    Status,
    outcome_text,
    title,
)
from graphrag.approvals.audit import Entry, Verification
from graphrag.config import Settings
from graphrag.i18n import Language, message
from graphrag.roles import Person
from tools.proposals import MalformedProposal, parse_action, to_document

review = typer.Typer(help="See and decide proposed changes.", no_args_is_help=True)
audit = typer.Typer(help="See the audit log, newest first, or verify it.", invoke_without_command=True)

IdArgument = Annotated[str, typer.Argument(metavar="ID", help="An approval's id (see `nodius review list`).")]
FeedbackOption = Annotated[
    str,
    typer.Option("--feedback", "-f", metavar="TEXT", help="Why; kept with the decision, the model reads it."),
]
LimitOption = Annotated[
    int, typer.Option("--limit", metavar="N", min=1, max=10_000, help="Show at most so many.")
]


def approvals_of(services: Services) -> tuple[Approvals, Person]:
    """Return the approvals of the workspace and who works at this command line."""
    return services.approvals, services.local_person()


@review.command("list")
def list_approvals(
    as_json: JsonOption = False,
    graph: Annotated[str | None, typer.Option("--graph", metavar="GRAPH", help="Of one graph only.")] = None,
    status: Annotated[
        str | None,
        typer.Option("--status", metavar="STATUS", help=f"Only {', '.join(get_args(Status))}."),
    ] = None,
    limit: LimitOption = 100,
    db: DbOption = None,
    workspace: WorkspaceOption = None,
    lang: LanguageOption = None,
) -> None:
    """List proposed changes: what waits for a decision first, then what was decided, newest first."""
    settings = settings_of(db, workspace, lang)
    if status is not None and status not in get_args(Status):
        fail(f"no status {status!r}; use one of {', '.join(get_args(Status))}", code=EXIT_USAGE)
    wanted = cast(Status | None, status)

    async def work(services: Services) -> list[Approval]:
        approvals, person = approvals_of(services)
        if graph is not None:
            await graph_or_fail(services.source, graph)
        found = await approvals.list(graph_key=graph, status=wanted, limit=limit, by=person)
        return sorted(found, key=lambda approval: not approval.is_open)

    found = run(settings, work)
    if as_json:
        render.json([approval_document(approval) for approval in found])
    elif found:
        columns = ["id", "graph", "status", "asked by", "when", "what"]
        rows = [[a.id, a.graph_key, a.status, a.asker, _due(a), _what(a, settings.language)] for a in found]
        render.table(columns, rows, folded=len(columns) - 1)
    if not found:
        render.note("Nothing has been proposed." if wanted is None else f"Nothing is {wanted}.")
        raise typer.Exit(EXIT_NOTHING)


def approval_document(approval: Approval) -> dict[str, Any]:
    """Return an approval as scripts see it: as stored, without what only an undo needs."""
    document = approval.to_document()
    result = dict(document.get("result", {}))
    for name in ("mutation", "inverse", "irregular", "conversion"):
        result.pop(name, None)
    if result:
        document["result"] = result
    return document


def _what(approval: Approval, language: Language) -> str:
    text = title(approval, language)
    return message("title_undo", language).format(what=text) if approval.undoes else text


def _due(approval: Approval) -> str:
    decision = approval.decision
    return _when(decision.at) if decision else f"until {_when(approval.expires)}"


def _when(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000).astimezone().isoformat(" ", "minutes")


@review.command("show")
def show(
    approval_id: IdArgument,
    as_json: JsonOption = False,
    db: DbOption = None,
    workspace: WorkspaceOption = None,
    lang: LanguageOption = None,
) -> None:
    """Show a proposed change: what it does, why, who asked, and what came of it."""
    settings = settings_of(db, workspace, lang)

    async def work(services: Services) -> Approval:
        approvals, person = approvals_of(services)
        return await approvals.get(approval_id, person)

    approval = run(settings, work)
    if as_json:
        render.json({**approval_document(approval), "action": to_document(approval.action)})
        return
    _show(approval, settings.language)


def _show(approval: Approval, language: Language) -> None:
    render.line(f"{approval.id}  {approval.status}  {_what(approval, language)}", "bold")
    facts = {
        "graph": f"{approval.graph_key}, proposed at revision {approval.base_revision}",
        "why": approval.reason,
        "asked by": f"{approval.asker} (thread {approval.thread_id}, turn {approval.turn}, {approval.model})",
        "created": _when(approval.created),
        "expires": _when(approval.expires) if approval.status == "pending" else "",
        "builds on": ", ".join(approval.depends_on),
        "undoes": ", ".join(filter(None, (approval.undoes, *approval.undoes_also))),
        "undone by": approval.undone_by or "",
    }
    for name, value in facts.items():
        if value:
            render.said(f"  {name + ':':<11} ", value)
    edited = approval.decision.preview if approval.decision else None
    render.line("  change:")
    print_preview(approval.preview, indent="    ")
    if edited is not None:
        render.line("  was edited to:")
        print_preview(edited, indent="    ")
    render.line(outcome_text(approval, language, to_person=True))


@review.command("approve")
def approve(
    approval_id: IdArgument,
    edit: Annotated[
        Path | None,
        typer.Option(
            "--edit", metavar="FILE", help="Carry out the action in this JSON file instead (-: stdin)."
        ),
    ] = None,
    feedback: FeedbackOption = "",
    as_json: JsonOption = False,
    db: DbOption = None,
    workspace: WorkspaceOption = None,
    lang: LanguageOption = None,
) -> None:
    """Approve a proposed change and apply it. `review show ID --json` prints its action, for an edit."""
    decision = (
        Approve(feedback) if edit is None else ApproveEdited(parse_action(_read_action(edit)), feedback)
    )
    _decide(settings_of(db, workspace, lang), approval_id, decision, as_json)


def _read_action(file: Path) -> Mapping[str, Any]:
    try:
        raw = sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
        document: Any = orjson.loads(raw)
        parse_action(document)
    except OSError as exc:
        fail(f"cannot read {file}: {exc.strerror}", code=EXIT_USAGE)
    except orjson.JSONDecodeError as exc:
        fail(f"{file} is not JSON: {exc}", code=EXIT_USAGE)
    except MalformedProposal as exc:
        fail(f"{file}: {exc}; `nodius review show ID --json` prints an action as it must be", code=EXIT_USAGE)
    return document


@review.command("reject")
def reject(
    approval_id: IdArgument,
    feedback: FeedbackOption = "",
    as_json: JsonOption = False,
    db: DbOption = None,
    workspace: WorkspaceOption = None,
    lang: LanguageOption = None,
) -> None:
    """Reject a proposed change: nothing of the graph changes."""
    _decide(settings_of(db, workspace, lang), approval_id, Reject(feedback), as_json)


def _decide(settings: Settings, approval_id: str, decision: Decision, as_json: bool) -> None:
    async def work(services: Services) -> Approval:
        approvals, person = approvals_of(services)
        return await approvals.decide(approval_id, decision, person)

    approval = run(settings, work)
    is_done = approval.status in ("applied", "rejected")
    if as_json:
        render.json(approval_document(approval))
    elif is_done:
        render.line(outcome_text(approval, settings.language, to_person=True))
    if not is_done:
        if not as_json:
            render.fault(outcome_text(approval, settings.language, to_person=True))
        raise typer.Exit(EXIT_FAILED)


def undo(
    graph: Annotated[
        str, typer.Argument(metavar="GRAPH|ID", help="A graph's key, or the id of an applied change alone.")
    ],
    approval_id: Annotated[
        str | None,
        typer.Argument(metavar="[ID]", help="Which change (default: the last one); an undo's id redoes."),
    ] = None,
    turn: Annotated[
        bool, typer.Option("--turn", help="With all else that was applied of the change's turn, in one step.")
    ] = False,
    as_json: JsonOption = False,
    db: DbOption = None,
    workspace: WorkspaceOption = None,
    lang: LanguageOption = None,
) -> None:
    """Take back an applied change. Refused when later changes rest on it; nothing of theirs is lost."""
    settings = settings_of(db, workspace, lang)

    async def work(services: Services) -> Approval:
        approvals, person = approvals_of(services)
        graph_key, wanted = await _to_undo(services, graph, approval_id)
        return await approvals.undo(graph_key, wanted, by=person, turn=turn)

    done = run(settings, work)
    if as_json:
        render.json(approval_document(done))
        return
    render.line(outcome_text(done, settings.language, to_person=True))
    print_preview(done.preview)
    render.note(f"To redo it: nodius undo {done.id}")


async def _to_undo(services: Services, named: str, approval_id: str | None) -> tuple[str, str | None]:
    """Return the graph and the change: an id alone says of which graph it is."""
    approvals, person = approvals_of(services)
    known = {graph.key for graph in await services.source.list_graphs()}
    if approval_id is None and named not in known:
        with suppress(ApprovalNotFound):
            return (await approvals.get(named, person)).graph_key, named
    await graph_or_fail(services.source, named, or_else="nor a change of this id (see `nodius review list`)")
    return named, approval_id


@audit.callback(invoke_without_command=True)
def show_audit(
    context: typer.Context,
    as_json: JsonOption = False,
    graph: Annotated[str | None, typer.Option("--graph", metavar="GRAPH", help="Of one graph only.")] = None,
    limit: LimitOption = 100,
    db: DbOption = None,
    workspace: WorkspaceOption = None,
    lang: LanguageOption = None,
) -> None:
    """Show who asked for what, who decided, and what changed, newest first."""
    if context.invoked_subcommand is not None:
        return
    settings = settings_of(db, workspace, lang)

    async def work(services: Services) -> list[Entry]:
        approvals, _ = approvals_of(services)
        found = await approvals.audit.entries(graph_key=graph, limit=limit)
        if graph is not None and not found:  # of a graph that was deleted there are entries
            await graph_or_fail(services.source, graph)
        return found

    entries = run(settings, work)
    if as_json:
        render.json([entry.to_document() for entry in entries])
    elif entries:
        columns = ["number", "when", "event", "by", "asked by", "graph", "approval", "changes"]
        rows = [_row(entry, settings.language) for entry in entries]
        render.table(columns, rows, numbers=[0], folded=len(columns) - 1)
    if not entries:
        render.note("Nothing has been decided yet.")
        raise typer.Exit(EXIT_NOTHING)


def _row(entry: Entry, language: Language) -> list[Any]:
    facts = entry.facts
    changes: Mapping[str, Any] = facts.get("changes") or {}
    shown = "; ".join(
        f"{message(f'keys_{kind}', language)}: {', '.join(keys)}" for kind, keys in changes.items()
    )
    told = ("event", "userId", "asker", "graphKey", "approvalId")
    return [entry.sequence, _when(entry.at), *(facts.get(name, "") for name in told), shown]


@audit.command("verify")
def verify(
    head: Annotated[
        str | None,
        typer.Option("--head", metavar="HASH", help="A head noted earlier, which must be in the chain."),
    ] = None,
    as_json: JsonOption = False,
    db: DbOption = None,
    workspace: WorkspaceOption = None,
    lang: LanguageOption = None,
) -> None:
    """Check that no entry was changed, removed, added or moved. Note the head it prints elsewhere."""
    settings = settings_of(db, workspace, lang)

    async def work(services: Services) -> Verification:
        approvals, _ = approvals_of(services)
        return await approvals.audit.verify(noted=head)

    found = run(settings, work)
    if as_json:
        document = {"entries": found.entries, "head": found.head, "faults": list(found.faults)}
        render.json({"sound": found.is_sound, **document})
    elif found.is_sound:
        render.line(f"The audit log is sound: {found.entries} entries, head {found.head}")
    if not found.is_sound:
        for fault in () if as_json else found.faults:
            render.fault(fault)
        raise typer.Exit(EXIT_FAILED)
