"""The commands `review` and `undo`: what waits for a decision, deciding it, what came of it."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Annotated, Any, get_args

import orjson
import typer

from cli import render
from cli.common import EXIT_FAILED, bytes_of, fail_without_graph, local_time, usage_error
from cli.diff import print_preview
from cli.options import Common, LimitOption, OfGraphOption, argument, command, flag, option
from graphrag import approvals
from graphrag.app.wiring import Services
from graphrag.i18n import Language
from graphrag.i18n import text as text_of
from tools.proposals import Action, MalformedProposal, parse_action, to_document

review = typer.Typer(help="See and decide proposed changes.", no_args_is_help=True)

IdArgument = Annotated[str, argument("ID", "An approval's id (see `nodius review list`).")]
FeedbackOption = Annotated[
    str, option("--feedback -f", "TEXT", "Why; kept with the decision, the model reads it.")
]


@command(review, "list")
async def list_approvals(
    common: Common,
    services: Services,
    graph: OfGraphOption = None,
    status: Annotated[
        approvals.Status | None,
        option("--status", "STATUS", f"Only {', '.join(get_args(approvals.Status))}."),
    ] = None,
    limit: LimitOption = 100,
) -> None:
    """List proposed changes: what waits for a decision first, then what was
    decided, newest first.
    """
    if graph is not None:
        await services.source.get_graph(graph)
    person = services.local_person()
    language = services.settings.language
    stored = await services.approvals.list(graph_key=graph, status=status, limit=limit, by=person)
    found = sorted(stored, key=lambda approval: not approval.is_open)
    common.show_list(
        [approval_document(approval) for approval in found],
        ["id", "graph", "status", "asked by", "when", "what"],
        [[a.id, a.graph_key, a.status, a.asker, _due(a), _what(a, language)] for a in found],
        none="Nothing has been proposed." if status is None else f"Nothing is {status}.",
        folded=5,
    )


def approval_document(approval: approvals.Approval) -> dict[str, Any]:
    """Return an approval as scripts see it: as stored, without what only an undo needs."""
    document = approval.to_document()
    result = dict(document.get("result", {}))
    for name in ("mutation", "inverse", "irregular", "conversion"):
        result.pop(name, None)
    if result:
        document["result"] = result
    return document


def _what(approval: approvals.Approval, language: Language) -> str:
    text = approvals.title(approval, language)
    return text_of("title_undo", language, what=text) if approval.undoes else text


def _due(approval: approvals.Approval) -> str:
    decision = approval.decision
    return local_time(decision.at) if decision else f"until {local_time(approval.expires)}"


@command(review, "show")
async def show(common: Common, services: Services, approval_id: IdArgument) -> None:
    """Show a proposed change: what it does, why, who asked, and what came of it."""
    approval = await services.approvals.get(approval_id, services.local_person())
    document = {**approval_document(approval), "action": to_document(approval.action)}
    common.say(document, partial(_show, approval, services.settings.language))


def _show(approval: approvals.Approval, language: Language) -> None:
    render.line(f"{approval.id}  {approval.status}  {_what(approval, language)}", "bold")
    words = approvals.review_words(approval, language)
    facts = {
        "graph": f"{approval.graph_key}, proposed at revision {approval.base_revision}",
        "why": approval.reason,
        "asked by": f"{approval.asker} (thread {approval.thread_id}, turn {approval.turn}, {approval.model})",
        "created": local_time(approval.created),
        "expires": local_time(approval.expires) if approval.status == "pending" else "",
        "builds on": ", ".join(approval.depends_on),
        "undoes": ", ".join(filter(None, (approval.undoes, *approval.undoes_also))),
        "undone by": approval.undone_by or "",
        "person for": words["asked"] if approval.is_open else "",
        "automation": approval.automation_id or "",
        "warning": "\n".join(words["warnings"]) if approval.is_open else "",
    }
    for name, value in facts.items():
        if value:
            render.said(f"  {name + ':':<11} ", value)
    edited = approval.decision.preview if approval.decision else None
    if len(words["parts"]) > 1:
        render.line("  parts:")
        for part in words["parts"]:
            render.said("    - ", part["text"] + (f" ({part['asked']})" if part["asked"] else ""))
            if does := part.get("does"):
                render.said("      ", does)
    elif does := words["parts"][0].get("does"):
        render.said("  does:       ", does)
    render.line("  change:")
    print_preview(approval.preview, indent="    ")
    if edited is not None:
        render.line("  was edited to:")
        print_preview(edited, indent="    ")
    render.line(approvals.outcome_text(approval, language, to_person=True))


@command(review, "approve")
async def approve(
    common: Common,
    services: Services,
    approval_id: IdArgument,
    edit: Annotated[
        Path | None,
        option("--edit", "FILE", "Carry out the action in this JSON file instead (-: stdin)."),
    ] = None,
    feedback: FeedbackOption = "",
) -> None:
    """Approve a proposed change and apply it. `review show ID --json` prints its action,
    for an edit.
    """
    edited = None if edit is None else approvals.ApproveEdited(_read_action(edit), feedback)
    person = services.local_person()
    decision = edited or approvals.Approve(feedback)
    _show_decided(common, services, await services.approvals.decide(approval_id, decision, person))


def _read_action(file: Path) -> Action:
    try:
        return parse_action(orjson.loads(bytes_of(file)))
    except orjson.JSONDecodeError as exc:
        usage_error(f"{file} is not JSON: {exc}")
    except MalformedProposal as exc:
        usage_error(f"{file}: {exc}; `nodius review show ID --json` prints an action as it must be")


@command(review, "reject")
async def reject(
    common: Common, services: Services, approval_id: IdArgument, feedback: FeedbackOption = ""
) -> None:
    """Reject a proposed change: nothing of the graph changes."""
    person = services.local_person()
    decision = approvals.Reject(feedback)
    _show_decided(common, services, await services.approvals.decide(approval_id, decision, person))


def _show_decided(common: Common, services: Services, approval: approvals.Approval) -> None:
    is_done = approval.status in ("applied", "rejected")
    said = approvals.outcome_text(approval, services.settings.language, to_person=True)
    common.say(approval_document(approval), said if is_done else partial(render.fault, said))
    if not is_done:
        raise typer.Exit(EXIT_FAILED)


@command()
async def undo(
    common: Common,
    services: Services,
    graph: Annotated[
        str, argument("GRAPH|ID", "A graph's key, or the id of an applied change alone.")
    ],
    approval_id: Annotated[
        str | None, argument("[ID]", "Which change (default: the last one); an undo's id redoes.")
    ] = None,
    turn: Annotated[
        bool, flag("--turn", "With all else that was applied of the change's turn, in one step.")
    ] = False,
) -> None:
    """Take back an applied change. Refused when later changes rest on it; nothing of
    theirs is lost.
    """
    graph_key, wanted = await _to_undo(services, graph, approval_id)
    done = await services.approvals.undo(graph_key, wanted, by=services.local_person(), turn=turn)
    if common.as_json:
        render.json(approval_document(done))
        return
    render.line(approvals.outcome_text(done, services.settings.language, to_person=True))
    print_preview(done.preview)
    render.note(f"To redo it: nodius undo {done.id}")


async def _to_undo(
    services: Services, named: str, approval_id: str | None
) -> tuple[str, str | None]:
    """Return the graph and the change: an id alone says of which graph it is."""
    known = {graph.key for graph in await services.source.list_graphs()}
    if approval_id is None and named not in known:
        with suppress(approvals.ApprovalNotFound):
            return (await services.approvals.get(named, services.local_person())).graph_key, named
        nor = "nor a change of this id (see `nodius review list`)"
        await fail_without_graph(services.source, named, or_else=nor)
    return named, approval_id
