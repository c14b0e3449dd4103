"""The commands `review …` and `undo`: show proposed changes, decide them and undo them."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Annotated, Any, get_args

import typer

from cli import render
from cli.command import command
from cli.common import EXIT_FAILED, fail_without_graph, local_time, usage_error
from cli.diff import print_preview
from cli.inputs import bytes_of, json_of
from cli.options import LimitOption, OfGraphOption, argument, flag, option
from cli.output import Output, listing
from graphrag import approvals
from graphrag.app.wiring import Services
from graphrag.i18n import Language
from graphrag.i18n import text as text_of
from graphrag.roles import Person
from tools.proposals import Action, MalformedProposal, parse_action, to_document

review = typer.Typer(help="See and decide proposed changes.", no_args_is_help=True)

IdArgument = Annotated[str, argument("ID", "An approval's id (see `nodius review list`).")]
FeedbackOption = Annotated[
    str,
    option("--feedback -f", "TEXT", "The reason; kept with the decision and read by the model."),
]


@command(review, "list")
async def list_approvals(
    services: Services,
    person: Person,
    language: Language,
    graph: OfGraphOption = None,
    status: Annotated[
        approvals.Status | None,
        option("--status", "STATUS", f"Only {', '.join(get_args(approvals.Status))}."),
    ] = None,
    limit: LimitOption = 100,
) -> Output:
    """List proposed changes: the undecided ones first, then the decided ones, newest first."""
    if graph is not None:
        await services.source.get_graph(graph)
    stored = await services.approvals.list(graph_key=graph, status=status, limit=limit, by=person)
    ordered = sorted(stored, key=lambda approval: not approval.is_open)
    return listing(
        [approval_document(approval) for approval in ordered],
        ["id", "graph", "status", "asked by", "when", "what"],
        [[a.id, a.graph_key, a.status, a.asker, _when(a), _title(a, language)] for a in ordered],
        empty="Nothing has been proposed." if status is None else f"Nothing is {status}.",
        folded=5,
    )


def approval_document(approval: approvals.Approval) -> dict[str, Any]:
    """Returns an approval as stored, without the data that only an undo needs."""
    document = approval.to_document()
    result = dict(document.get("result", {}))
    for name in ("mutation", "inverse", "irregular", "conversion"):
        result.pop(name, None)
    if result:
        document["result"] = result
    return document


def _title(approval: approvals.Approval, language: Language) -> str:
    text = approvals.title(approval, language)
    return text_of("title_undo", language, what=text) if approval.undoes else text


def _when(approval: approvals.Approval) -> str:
    decision = approval.decision
    return local_time(decision.at) if decision else f"until {local_time(approval.expires)}"


@command(review, "show")
async def show(
    services: Services, person: Person, language: Language, approval_id: IdArgument
) -> Output:
    """Show a proposed change: what it changes, why, who asked for it, and its outcome."""
    approval = await services.approvals.get(approval_id, person)
    document = {**approval_document(approval), "action": to_document(approval.action)}
    return Output(document=document, text=partial(_show, approval, language))


def _show(approval: approvals.Approval, language: Language) -> None:
    words = approvals.review_words(approval, language)
    origin = f"thread {approval.thread_id}, turn {approval.turn}, {approval.model}"
    render.line(f"{approval.id}  {approval.status}  {_title(approval, language)}", "bold")
    render.facts(
        {
            "graph": f"{approval.graph_key}, proposed at revision {approval.base_revision}",
            "why": approval.reason,
            "asked by": f"{approval.asker} ({origin})",
            "created": local_time(approval.created),
            "expires": local_time(approval.expires) if approval.status == "pending" else "",
            "builds on": ", ".join(approval.depends_on),
            "undoes": ", ".join(filter(None, (approval.undoes, *approval.undoes_also))),
            "undone by": approval.undone_by or "",
            "person for": words["asked"] if approval.is_open else "",
            "automation": approval.automation_id or "",
            "warning": "\n".join(words["warnings"]) if approval.is_open else "",
        },
        width=11,
    )
    _show_parts(words["parts"])
    render.line("  change:")
    print_preview(approval.preview, indent="    ")
    edited = approval.decision.preview if approval.decision else None
    if edited is not None:
        render.line("  was edited to:")
        print_preview(edited, indent="    ")
    render.line(approvals.outcome_text(approval, language, to_person=True))


def _show_parts(parts: list[dict[str, Any]]) -> None:
    """Prints the parts of a change, or only the effect of a change that has one part."""
    if len(parts) == 1:
        render.facts({"does": parts[0].get("does") or ""}, width=11)
        return
    render.line("  parts:")
    for part in parts:
        render.quote("    - ", part["text"] + (f" ({part['asked']})" if part["asked"] else ""))
        if does := part.get("does"):
            render.quote("      ", does)


@command(review, "approve")
async def approve(
    services: Services,
    person: Person,
    language: Language,
    approval_id: IdArgument,
    edit: Annotated[
        Path | None,
        option("--edit", "FILE", "Apply the action in this JSON file instead (-: stdin)."),
    ] = None,
    feedback: FeedbackOption = "",
) -> Output:
    """Approve a proposed change and apply it. `review show ID --json` prints its action,
    for an edit.
    """
    decision = (
        approvals.Approve(feedback)
        if edit is None
        else approvals.ApproveEdited(_read_action(edit), feedback)
    )
    return _decided(await services.approvals.decide(approval_id, decision, person), language)


def _read_action(file: Path) -> Action:
    try:
        return parse_action(json_of(str(file), bytes_of(file)))
    except MalformedProposal as exc:
        usage_error(f"{file}: {exc}; `nodius review show ID --json` prints an action as it must be")


@command(review, "reject")
async def reject(
    services: Services,
    person: Person,
    language: Language,
    approval_id: IdArgument,
    feedback: FeedbackOption = "",
) -> Output:
    """Reject a proposed change. The graph stays as it is."""
    decision = approvals.Reject(feedback)
    return _decided(await services.approvals.decide(approval_id, decision, person), language)


def _decided(approval: approvals.Approval, language: Language) -> Output:
    succeeded = approval.status in ("applied", "rejected")
    outcome = approvals.outcome_text(approval, language, to_person=True)
    return Output(
        document=approval_document(approval),
        text=outcome if succeeded else partial(render.fault, outcome),
        exit_code=0 if succeeded else EXIT_FAILED,
    )


@command()
async def undo(
    services: Services,
    person: Person,
    language: Language,
    graph: Annotated[
        str, argument("GRAPH|ID", "A graph's key, or only the id of an applied change.")
    ],
    approval_id: Annotated[
        str | None,
        argument("[ID]", "The change to undo (default: the last one); an undo's id redoes."),
    ] = None,
    turn: Annotated[
        bool, flag("--turn", "Also undo all other changes of the same turn, in one step.")
    ] = False,
) -> Output:
    """Undo an applied change. Refused when later changes depend on it; none of them is lost."""
    graph_key, change_id = await _change_to_undo(services, person, graph, approval_id)
    done = await services.approvals.undo(graph_key, change_id, by=person, turn=turn)

    def show() -> None:
        render.line(approvals.outcome_text(done, language, to_person=True))
        print_preview(done.preview)
        render.note(f"To redo it: nodius undo {done.id}")

    return Output(document=approval_document(done), text=show)


async def _change_to_undo(
    services: Services, person: Person, named: str, approval_id: str | None
) -> tuple[str, str | None]:
    """Returns the graph and the id of the change; an id alone also names its graph."""
    keys = {graph.key for graph in await services.source.list_graphs()}
    if approval_id is None and named not in keys:
        with suppress(approvals.ApprovalNotFound):
            return (await services.approvals.get(named, person)).graph_key, named
        nor = "nor a change of this id (see `nodius review list`)"
        await fail_without_graph(services.source, named, or_else=nor)
    return named, approval_id
