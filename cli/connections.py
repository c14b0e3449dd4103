"""The commands `connect`, `connections`, `sync` and `disconnect`: workflows of running servers."""

from __future__ import annotations

import re
import sys
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

import typer

from cli import render
from cli.command import command
from cli.common import EXIT_FAILED, local_time, usage_error
from cli.options import Common, argument, flag, option
from cli.output import Output, listing
from graphrag.app.connection_services import connections_of, pushes_of, watch_of
from graphrag.app.wiring import Services
from graphrag.connections import (
    Connections,
    LinkedGraph,
    NewConnection,
    PullReport,
    ServerConnection,
)
from graphrag.connections.errors import EditorFault
from graphrag.connections.pull import PulledWorkflow
from graphrag.connections.stored_connection import DEFAULT_INTERVAL_S, EditorKind, PushMode
from tools.http.addresses import is_loopback

NameArgument = Annotated[str, argument("NAME", "The connection (see `nodius connections`).")]


@command(creates=True)
async def connect(
    common: Common,
    services: Services,
    kind: Annotated[EditorKind, argument("n8n|node-red", "The kind of server.")],
    address: Annotated[str, argument("ADDRESS", "Its address, such as https://n8n.example.com.")],
    name: Annotated[
        str | None, option("--name", "NAME", "Its name here (default: from its host).")
    ] = None,
    key_env: Annotated[
        str | None,
        option("--key-env", "VARIABLE", "The environment variable that holds the key."),
    ] = None,
    workflows: Annotated[
        list[str] | None,
        option("--workflows", "PATTERN", "Only these, or these tabs, as 'Order*'; repeatable."),
    ] = None,
    certificate: Annotated[
        Path | None, option("--certificate", "FILE", "Certificates (PEM) to check the server by.")
    ] = None,
    push: Annotated[
        PushMode,
        option(
            "--push",
            "never|ask|approval",
            "Whether changes may be written there: when you confirm them, or a reviewer approves.",
        ),
    ] = "never",
    private: Annotated[
        bool, flag("--private", "The address may be one of a private network.")
    ] = False,
    interval: Annotated[
        int,
        option("--interval", "SECONDS", "How often `nodius serve` looks at the server; 0: never."),
    ] = DEFAULT_INTERVAL_S,
) -> Output:
    """Connect with a running n8n or Node-RED server and read its workflows.

    The server is not written to, unless --push says who decides about what was changed here (see
    `nodius push`). An n8n key needs the rights workflow:list and workflow:read, to be written to
    also workflow:update. For Node-RED the key is a token, or
    NAME:PASSWORD; an open server needs none. Without --key-env, the key is asked for on a terminal
    and stored encrypted (this needs NODIUS_AUTH_SECRET).
    """
    connections = connections_of(services)
    new = NewConnection(
        name=name or _name_of(address, kind),
        kind=kind,
        address=address,
        key_variable=key_env,
        key=None if key_env else _asked_key(kind),
        workflows=tuple(workflows or ()),
        push=push,
        allow_private=private or _is_allowed(address),
        certificate_file=str(certificate.absolute()) if certificate else None,
        interval_s=interval,
    )
    connection = await connections.add(new, services.local_person())
    if not common.as_json:
        _show_connection(connection)
    return await _synchronise(common, services, connections, [connection])


@command()
async def list_connections(services: Services) -> Output:
    """List the connections with workflow servers, and how each graph stands."""
    connections = connections_of(services)
    documents: list[dict[str, Any]] = []
    rows: list[list[Any]] = []
    for connection in await connections.list():
        graphs = await connections.graphs(connection, services.local_person())
        documents.append(_document(connection, graphs))
        states = Counter(_state(graph) for graph in graphs)
        synced = connection.last_synced_time
        rows.append(
            [
                connection.key,
                connection.kind,
                connection.address,
                len(graphs),
                ", ".join(f"{count} {state}" for state, count in sorted(states.items())),
                local_time(synced) if synced else "never",
                connection.last_error or "",
            ]
        )
    return listing(
        documents,
        ["name", "kind", "address", "workflows", "state", "synchronised", "problem"],
        rows,
        empty="No connection yet: `nodius connect n8n ADDRESS` or `nodius connect node-red ADDRESS`.",
        numbers=(3,),
        folded=6,
    )


@command(creates=True)
async def sync(
    common: Common,
    services: Services,
    name: Annotated[str | None, argument("[NAME]", "One connection (default: all).")] = None,
) -> Output:
    """Read what changed on connected servers into their graphs.

    What only the server changed is taken, what people changed here stays. Where both changed the
    same, the server's version waits for a decision: see `nodius review`.
    """
    connections = connections_of(services)
    chosen = [await connections.get(name)] if name else await connections.list()
    if not chosen:
        usage_error("there is no connection yet: `nodius connect n8n ADDRESS` makes one")
    return await _synchronise(common, services, connections, chosen)


@command(creates=True)
async def disconnect(services: Services, name: NameArgument) -> Output:
    """Remove a connection. Its graphs stay."""
    await connections_of(services).remove(name, services.local_person())
    return Output(document={"name": name}, text=f"disconnected {name}; its graphs stay")


async def _synchronise(
    common: Common, services: Services, connections: Connections, chosen: list[ServerConnection]
) -> Output:
    """Synchronises connections one after the other and prints the outcome of each workflow.

    Where a server cannot be used, the others are read all the same; the command fails at its end.
    """
    pushes = pushes_of(services, connections)
    watch = watch_of(services, connections)
    reports: list[PullReport] = []
    faults: list[tuple[str, EditorFault]] = []
    for connection in chosen:
        with render.progress(f"reading {connection.key}", quiet=common.as_json) as update:
            try:
                by = services.local_person()
                await pushes.settle(connection.key, by)
                reports.append(await connections.sync(connection.key, by, update))
                await watch.look(reports[-1], by)
            except EditorFault as fault:
                faults.append((connection.key, fault))
    language = services.settings.language
    failed = [{"name": name, "error": fault.text(language)} for name, fault in faults]
    documents = [_report_document(report) for report in reports] + failed
    for name, fault in faults:
        render.fault(f"nodius: {name}: {fault.text(language)}")
    return Output(
        document=documents,
        text=partial(_show_reports, reports),
        exit_code=EXIT_FAILED if faults else 0,
    )


def _name_of(address: str, kind: EditorKind) -> str:
    """Returns a name for a connection that was given none: the first part of its host."""
    host = urlsplit(address).hostname or ""
    first = host.split(".")[0] if not host.replace(".", "").isdigit() else ""
    name = re.sub(r"[^a-z0-9_-]", "", first.lower())[:40]
    return name if re.match(r"[a-z0-9]", name) and name != "localhost" else kind


def _asked_key(kind: EditorKind) -> str | None:
    """Returns the key that a person types; None where there is no terminal or nothing is typed."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return None
    hint = "API key" if kind == "n8n" else "Token, or NAME:PASSWORD (empty: none)"
    typed: str = typer.prompt(hint, default="", hide_input=True, show_default=False, err=True)
    return typed.strip() or None


def _is_allowed(address: str) -> bool:
    """Returns whether a person says on the terminal that this computer's address may be reached."""
    host = urlsplit(address).hostname or ""
    if not is_loopback(host) or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    return typer.confirm(f"{host} is this computer. Connect to it?", err=True)


def _state(graph: LinkedGraph) -> str:
    """Returns how a workflow and its graph stand to each other, as people read it."""
    return graph.standing.replace("_", " ")


def _document(connection: ServerConnection, graphs: list[LinkedGraph]) -> dict[str, Any]:
    return {
        "name": connection.key,
        "kind": connection.kind,
        "address": connection.address,
        "version": connection.server_version or None,
        "rights": list(connection.rights),
        "missingRights": list(connection.missing_rights),
        "patterns": list(connection.workflows),
        "intervalS": connection.interval_s,
        "lastSyncedTime": connection.last_synced_time,
        "lastError": connection.last_error,
        "unreachableSince": connection.unreachable_since_time,
        "workflows": [
            {
                "id": graph.link.workflow_id,
                "name": graph.link.name,
                "graph": graph.link.graph_key or None,
                "state": _state(graph),
                "page": graph.page,
                "labels": list(graph.link.labels),
                "hasUnpublished": graph.link.has_unpublished,
                "approval": graph.link.approval,
                "reason": graph.link.reason,
            }
            for graph in graphs
        ],
    }


def _report_document(report: PullReport) -> dict[str, Any]:
    return {
        "name": report.connection.key,
        "workflows": [
            {
                "id": workflow.workflow_id,
                "name": workflow.name,
                "graph": workflow.graph_key or None,
                "change": workflow.change,
                "approval": workflow.approval,
                "hasUnpublished": workflow.has_unpublished,
                "reason": workflow.reason,
            }
            for workflow in report.workflows
        ],
    }


def _show_connection(connection: ServerConnection) -> None:
    version = f" {connection.server_version}" if connection.server_version else ""
    rights = ", ".join(connection.rights) or "none"
    render.line(f"connected {connection.key}: {connection.kind}{version} at {connection.address}")
    render.line(f"  the key allows: {rights}")
    if connection.missing_rights:
        render.line(f"  it lacks: {', '.join(connection.missing_rights)}", "yellow")


def _show_reports(reports: list[PullReport]) -> None:
    for report in reports:
        for workflow in report.workflows:
            if workflow.change != "unchanged":
                _show_workflow(workflow)
        counts = Counter(workflow.change for workflow in report.workflows)
        summary = ", ".join(f"{count} {change}" for change, count in sorted(counts.items()))
        render.line(f"{report.connection.key}: {summary or 'no workflow'}")


def _show_workflow(workflow: PulledWorkflow) -> None:
    graph = f" → graph {workflow.graph_key}" if workflow.graph_key else ""
    line = f"{workflow.name}: {workflow.change}{graph}"
    if workflow.reason:
        line += f": {workflow.reason}"
    if workflow.approval:
        line += f"; decide with `nodius review show {workflow.approval}`"
    render.line(line, "yellow" if workflow.change in ("conflict", "refused", "gone") else None)
    if workflow.has_unpublished:
        render.line("  what runs there is an older version than this draft")
