"""The commands `push` and `pushes …`: write changed graphs to connected servers."""

from __future__ import annotations

import sys
from functools import partial
from typing import Annotated, Any

import orjson
import typer

from cli import render
from cli.command import command
from cli.common import EXIT_FAILED, local_time, usage_error
from cli.options import Common, LimitOption, argument, flag
from cli.output import Output, listing
from graphrag.app.connection_services import connections_of, pushes_of
from graphrag.app.wiring import Services
from graphrag.connections.pushes import Pushes
from graphrag.connections.stored_push import Push, StoredRemark
from graphrag.i18n import Language
from graphrag.i18n import text as text_of
from graphrag.roles import Person

pushes = typer.Typer(help="See and decide what is written to connected servers.")

NameArgument = Annotated[str, argument("NAME", "The connection (see `nodius connections`).")]
IdArgument = Annotated[str, argument("ID", "A push's id (see `nodius pushes`).")]
YesFlag = Annotated[bool, flag("--yes -y", "Send it without asking.")]
CHANGED_HERE = ("changed_here", "changed_both")


@command()
async def push(
    common: Common,
    services: Services,
    person: Person,
    language: Language,
    name: NameArgument,
    graphs: Annotated[
        list[str] | None, argument("[GRAPH]...", "These graphs (default: all changed here).")
    ] = None,
    publish: Annotated[
        bool, flag("--publish", "Instead, make the draft of n8n's workflow what runs.")
    ] = False,
    create: Annotated[
        bool, flag("--create", "Instead, make the graph a new workflow of n8n.")
    ] = False,
    yes: YesFlag = False,
) -> Output:
    """Write what was changed here to a connected server, after you have seen it.

    Only the changed fields are written, on the workflow as the server has it now; then it is read
    back and compared. Nothing of n8n is published by it; Node-RED runs the changed nodes at once.
    """
    if (publish or create) and not graphs:
        usage_error("name the graph that is to be published or created")
    if publish and create:
        usage_error("choose --publish or --create: a new workflow is published later")
    pushing = _pushes(services)
    waiting: list[Push] = []
    for graph in graphs or await _changed(services, person, name):
        plan = pushing.plan_create if create else pushing.plan
        plan = pushing.plan_publish if publish else plan
        planned = await plan(name, graph, person)
        if planned is not None:
            waiting.append(planned)
    return await _decided(common, services, person, language, waiting, yes=yes)


@command(pushes)
async def list_pushes(
    services: Services,
    language: Language,
    limit: LimitOption = 100,
) -> Output:
    """List what was written to connected servers, and what waits for a decision."""
    stored = await _pushes(services).list(limit=limit)
    return listing(
        [push_document(each, language) for each in stored],
        ["id", "connection", "workflow", "state", "asked by", "when", "fields"],
        [
            [
                each.key,
                each.connection,
                each.name,
                each.state.replace("_", " "),
                each.asked_by,
                local_time(each.ended_time or each.created_time),
                len(each.changes) + each.more_changes,
            ]
            for each in stored
        ],
        empty="Nothing was pushed yet: `nodius push NAME` writes what was changed here.",
        numbers=(6,),
    )


@command(pushes, "show")
async def show(services: Services, language: Language, push_id: IdArgument) -> Output:
    """Show what a push writes, what it means on the server, and how it ended."""
    stored = await _pushes(services).get(push_id)
    return Output(document=push_document(stored, language), text=partial(_show, stored, language))


@command(pushes, "approve")
async def approve(
    services: Services, person: Person, language: Language, push_id: IdArgument
) -> Output:
    """Send a push that waits, and tell how it ended."""
    return _ended([await _pushes(services).approve(push_id, person)], language)


@command(pushes, "reject")
async def reject(
    services: Services, person: Person, language: Language, push_id: IdArgument
) -> Output:
    """Close a push that waits; nothing is written."""
    return _ended([await _pushes(services).reject(push_id, person)], language)


@command(pushes, "undo")
async def undo(
    common: Common,
    services: Services,
    person: Person,
    language: Language,
    push_id: IdArgument,
    yes: YesFlag = False,
) -> Output:
    """Take a push back: write the fields as they were, unless they were changed since."""
    planned = await _pushes(services).plan_undo(push_id, person)
    waiting = [planned] if planned is not None else []
    return await _decided(common, services, person, language, waiting, yes=yes)


def _pushes(services: Services) -> Pushes:
    return pushes_of(services, connections_of(services))


async def _changed(services: Services, person: Person, name: str) -> list[str]:
    """Returns the graphs of a connection that were changed here."""
    connections = connections_of(services)
    graphs = await connections.graphs(await connections.get(name), person)
    return [graph.link.graph_key for graph in graphs if graph.standing in CHANGED_HERE]


async def _decided(
    common: Common,
    services: Services,
    person: Person,
    language: Language,
    planned: list[Push],
    *,
    yes: bool,
) -> Output:
    """Shows planned pushes and sends those that the person confirms."""
    if not planned:
        return Output(document=[], text="nothing was changed here that the server has not got")
    ended: list[Push] = []
    for each in planned:
        if not common.as_json:
            _show(each, language)
        if each.state == "waiting" and (yes or _is_confirmed(common)):
            ended.append(await _pushes(services).approve(each.key, person))
        else:
            ended.append(each)
    return _ended(ended, language)


def _is_confirmed(common: Common) -> bool:
    """Returns whether the person on the terminal wants it sent; False where there is none."""
    if common.as_json or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    return typer.confirm("Write this to the server?", err=True)


def _ended(ended: list[Push], language: Language) -> Output:
    is_failed = any(each.state not in ("waiting", "verified", "rejected") for each in ended)
    return Output(
        document=[push_document(each, language) for each in ended],
        text=partial(_show_ends, ended, language),
        exit_code=EXIT_FAILED if is_failed else 0,
    )


def _show_ends(ended: list[Push], language: Language) -> None:
    for each in ended:
        line = f"{each.name}: {each.state.replace('_', ' ')}"
        if each.reason is not None:
            line += f": {_sentence(each.reason, language)}"
        if each.state == "waiting":
            line += f"; `nodius pushes approve {each.key}` sends it"
        render.line(line, None if each.state in ("verified", "rejected", "waiting") else "yellow")


def push_document(push: Push, language: Language) -> dict[str, Any]:
    """Returns a push as a script reads it, without what is kept for the service alone."""
    stored = push.to_document()
    document = {"id": stored.pop("_key"), **stored}
    for name in ("sealedDocuments", "hasFailuresRead", "sentNodes"):
        document.pop(name, None)
    document["canBeUndone"] = push.can_be_undone
    for name in ("problems", "warnings", "effects", "failures"):
        document[name] = [_with_text(each, language) for each in getattr(push, name)]
    if push.reason is not None:
        document["reason"] = _with_text(push.reason, language)
    return document


def _with_text(remark: StoredRemark, language: Language) -> dict[str, Any]:
    return {**remark.to_document(), "text": _sentence(remark, language)}


def _sentence(remark: StoredRemark, language: Language) -> str:
    return text_of(remark.code, language, **remark.facts)


def _show(push: Push, language: Language) -> None:
    render.line(f"{push.name} → {push.connection}: {push.state.replace('_', ' ')}", "bold")
    for change in push.changes:
        render.quote("  ", change.place)
        render.quote("    - ", _shown(change.before, change.before_digest))
        render.quote("    + ", _shown(change.after, change.after_digest))
    if push.more_changes:
        render.line(f"  and {push.more_changes} more fields")
    for remark in (*push.effects, *push.warnings):
        render.quote("  ", _sentence(remark, language))
    for line in push.left_out:
        render.quote("  not written: ", line)
    for remark in (*push.problems, *push.failures):
        render.line(f"  {_sentence(remark, language)}", "yellow")


def _shown(value: Any, digest: str) -> str:
    if not digest:
        return "(not there)"
    return value if isinstance(value, str) else orjson.dumps(value).decode()
