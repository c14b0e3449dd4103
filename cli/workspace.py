"""The commands `search`, `uses`, `replace` and `codemods`: all graphs of a workspace at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import groupby
from operator import itemgetter
from typing import Annotated, Any

import typer

from cli import render
from cli.common import EXIT_FAILED, EXIT_NOTHING, local_time, usage_error
from cli.options import Common, LimitOption, argument, command, flag, option
from cli.review import approval_document
from datasources.text import letters, node_label
from datasources.uses import USE_KINDS, UseKind, entries_for
from graphrag.app.wiring import Services
from graphrag.approvals import Approve, Reject, outcome_text
from graphrag.approvals.codemods import Codemod, GraphPart, Replacement
from graphrag.errors import describe
from graphrag.i18n import Language
from tools.compact import cut_name
from tools.read_tools.search_workspace import use_rows

KindOption = Annotated[UseKind | None, option("--kind", "KIND", f"Only as {', '.join(USE_KINDS)}.")]
GraphsOption = Annotated[
    list[str] | None, option("--graph", "GRAPH", "Only in this graph; may be repeated.")
]
IdArgument = Annotated[str, argument("ID", "As `replace` printed it (see `nodius codemods list`).")]
MAX_LABEL = 80
"""Characters shown of what a node is called."""
NO_CODEMODS = "Nothing has been replaced in many graphs: `nodius replace OLD NEW` proposes it."
codemods = typer.Typer(help="Replacements over many graphs: look at them, decide and undo them.")


@command()
async def search(
    common: Common,
    services: Services,
    query: Annotated[str, argument("QUERY", "Words or a question, in quotes.")],
    limit: LimitOption = 10,
) -> None:
    """Search all graphs of the workspace, by words and meaning; the best graphs first."""
    if not query.strip():
        usage_error("the query is empty")
    found = [
        {
            "graph": graph.key,
            "name": graph.name,
            "node": hit.node.key,
            "what": node_label(hit.node),
            "type": hit.node.type,
            "score": round(hit.score, 3),
        }
        for graph in await services.search_all(query, limit=limit)
        for hit in graph.hits
    ]

    def hit(row: dict[str, Any]) -> tuple[str, ...]:
        return f"{row['score']:.2f}", _named(row["node"], row["what"]), row["type"]

    _show_by_graph(common, found, hit, "No graph has anything for that.")


@command()
async def uses(
    common: Common,
    services: Services,
    value: Annotated[str, argument("VALUE", "Taken literally: a name, an address, …")],
    kind: KindOption = None,
    limit: LimitOption = 1_000,
) -> None:
    """Show which nodes of all graphs refer to a value: a credential, address, table,
    queue, file, model.
    """
    entries = entries_for(value, kind)
    found = use_rows(await services.source.find_users(entries, limit=limit), frozenset(entries))
    shown = ("graph", "_key", "name", "kind", "value", "field")
    rows = [{name: row[name] for name in shown} for row in found]

    def user(row: dict[str, Any]) -> tuple[str, ...]:
        return _named(row["_key"], row["name"]), row["kind"], row["value"], f"in {row['field']}"

    _show_by_graph(common, rows, user, "No graph refers to that.")


@command()
async def replace(
    common: Common,
    services: Services,
    old: Annotated[str, argument("OLD", "What nodes refer to, as it is written there.")],
    new: Annotated[str, argument("NEW", "What they are to refer to.")],
    kind: KindOption = None,
    graphs: GraphsOption = None,
    resume: Annotated[
        str | None, option("--resume", "ID", "Go on with one that was interrupted.")
    ] = None,
    approve: Annotated[bool, flag("--approve", "Approve all parts at once.")] = False,
) -> None:
    """Propose a replacement in all graphs that refer to a value: one proposal a graph."""
    person = services.local_person()
    wanted = Replacement(
        old=old, new=new, kind=kind, graphs=None if graphs is None else tuple(graphs)
    )
    made = await services.codemods.propose(wanted, person, resume)
    if approve:
        made = await services.codemods.decide(made.id, Approve(), person)
    _show(common, made, services.settings.language)


@command(codemods, "list")
async def list_codemods(common: Common, services: Services) -> None:
    """List the latest replacements over many graphs, and how many of their parts stand how."""
    documents: list[dict[str, Any]] = []
    rows: list[list[str]] = []
    for made in await services.codemods.latest(services.local_person()):
        first = made.parts[0].approval
        graphs = {part.graph_key: _status(part) for part in made.parts}
        assert first is not None, "what is listed was proposed"
        facts = {"createdTime": first.created, "reason": first.reason}
        documents.append({"codemodId": made.id, **facts, "graphs": graphs})
        counts = ", ".join(
            f"{count} {status}" for status, count in Counter(graphs.values()).items()
        )
        rows.append([made.id, local_time(first.created), counts, first.reason])
    common.show_list(documents, ["id", "when", "graphs", "what"], rows, none=NO_CODEMODS, folded=3)


@command(codemods, "show")
async def show(common: Common, services: Services, codemod_id: IdArgument) -> None:
    """Show each graph's part as it stands."""
    found = await services.codemods.get(codemod_id, services.local_person())
    _show(common, found, services.settings.language)


@command(codemods, "approve")
async def approve(
    common: Common, services: Services, codemod_id: IdArgument, graphs: GraphsOption = None
) -> None:
    """Approve the parts that wait; after an interruption, those that are left."""
    done = await services.codemods.decide(codemod_id, Approve(), services.local_person(), graphs)
    _show(common, done, services.settings.language)


@command(codemods, "reject")
async def reject(
    common: Common, services: Services, codemod_id: IdArgument, graphs: GraphsOption = None
) -> None:
    """Reject the parts that wait."""
    done = await services.codemods.decide(codemod_id, Reject(), services.local_person(), graphs)
    _show(common, done, services.settings.language)


@command(codemods, "undo")
async def undo(
    common: Common, services: Services, codemod_id: IdArgument, graphs: GraphsOption = None
) -> None:
    """Take back what was applied, in one step."""
    done = await services.codemods.undo(codemod_id, services.local_person(), graphs)
    _show(common, done, services.settings.language)


def _named(key: str, label: str) -> str:
    """Return a key, with a name that says more."""
    return key if letters(key) == letters(label) else f"{key}  {cut_name(label, MAX_LABEL)}"


def _show_by_graph(
    common: Common,
    rows: list[dict[str, Any]],
    parts: Callable[[dict[str, Any]], tuple[str, ...]],
    none: str,
) -> None:
    """Print a line a graph, and below it one a node."""
    if common.as_json:
        render.json(rows)
    else:
        for graph, found in groupby(rows, key=itemgetter("graph")):
            nodes = list(found)
            name = nodes[0]["name"] if "node" in nodes[0] else graph
            render.line(_named(graph, name), "bold")
            for row in nodes:
                render.line(render.GAP + render.GAP.join(parts(row)))
    if not rows:
        render.note(none)
        raise typer.Exit(EXIT_NOTHING)


def _show(common: Common, codemod: Codemod, language: Language) -> None:
    if common.as_json:
        parts = [_part_document(part, language) for part in codemod.parts]
        render.json({"codemodId": codemod.id, "parts": parts})
    else:
        render.heading(codemod.id)
        rows = [[part.graph_key, _status(part), *_what(part, language)] for part in codemod.parts]
        render.table(["graph", "status", "nodes", "what became of it"], rows, folded=3)
        if any(part.approval and part.approval.is_open for part in codemod.parts):
            render.note(f"To decide: nodius codemods approve|reject {codemod.id} [--graph GRAPH]")
    if any(part.refused for part in codemod.parts):
        raise typer.Exit(EXIT_FAILED)


def _status(part: GraphPart) -> str:
    if part.refused is not None:
        return "refused"
    return part.approval.status if part.approval else ""


def _what(part: GraphPart, language: Language) -> tuple[str, str]:
    changed = part.approval.effective_preview.get("nodesChanged", ()) if part.approval else ()
    known = describe(part.refused, language) if part.refused else None
    said = (
        known.message if known else outcome_text(part.approval, language) if part.approval else ""
    )
    return str(len(changed)), said


def _part_document(part: GraphPart, language: Language) -> dict[str, Any]:
    known = describe(part.refused, language) if part.refused else None
    error = {"error": {"code": known.code, "message": known.message}} if known else {}
    approval = {"approval": approval_document(part.approval)} if part.approval else {}
    return {"graph": part.graph_key, "status": _status(part), **approval, **error}
