"""The commands `search`, `uses`, `replace` and `codemods …`, over all graphs of a workspace."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import Annotated, Any

import typer

from cli import render
from cli.command import command
from cli.common import EXIT_FAILED, local_time, usage_error
from cli.options import LimitOption, argument, flag, option
from cli.output import Output, listing, nothing
from cli.review import approval_document
from datasources.text import letters, node_label
from datasources.uses import USE_KINDS, UseKind, entries_for
from graphrag.app.wiring import Services
from graphrag.approvals import Approve, Reject, outcome_text
from graphrag.approvals.codemods import Codemod, GraphPart, Replacement
from graphrag.errors import describe
from graphrag.i18n import Language
from graphrag.roles import Person
from tools.compact import cut_name
from tools.read_tools.search_workspace import use_rows

KindOption = Annotated[
    UseKind | None, option("--kind", "KIND", f"Only references as {', '.join(USE_KINDS)}.")
]
GraphsOption = Annotated[
    list[str] | None, option("--graph", "GRAPH", "Only in this graph; may be repeated.")
]
IdArgument = Annotated[str, argument("ID", "As `replace` printed it (see `nodius codemods list`).")]
MAX_LABEL_CHARS = 80
NO_CODEMODS = "There is no replacement over many graphs: `nodius replace OLD NEW` proposes one."
codemods = typer.Typer(help="Replacements over many graphs: see, decide and undo them.")
Row = dict[str, Any]


@command()
async def search(
    services: Services,
    query: Annotated[str, argument("QUERY", "Words or a question, in quotes.")],
    limit: LimitOption = 10,
) -> Output:
    """Search all graphs of the workspace, by words and meaning; the best graphs first."""
    if not query.strip():
        usage_error("the query is empty")
    rows = [
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

    def cells(row: Row) -> tuple[str, ...]:
        return f"{row['score']:.2f}", _labelled(row["node"], row["what"]), row["type"]

    return _by_graph(rows, cells, name="name", empty="No graph contains anything for this query.")


@command()
async def uses(
    services: Services,
    value: Annotated[str, argument("VALUE", "Taken literally: a name, an address, …")],
    kind: KindOption = None,
    limit: LimitOption = 1_000,
) -> Output:
    """Show which nodes of all graphs refer to a value: a credential, address, table,
    queue, file, model.
    """
    entries = entries_for(value, kind)
    matches = use_rows(await services.source.find_users(entries, limit=limit), frozenset(entries))
    columns = ("graph", "_key", "name", "kind", "value", "field")
    rows = [{column: row[column] for column in columns} for row in matches]

    def cells(row: Row) -> tuple[str, ...]:
        label = _labelled(row["_key"], row["name"])
        return label, row["kind"], row["value"], f"in {row['field']}"

    return _by_graph(rows, cells, name="graph", empty="No graph refers to that.")


def _by_graph(
    rows: Sequence[Row], cells: Callable[[Row], tuple[str, ...]], *, name: str, empty: str
) -> Output:
    """Returns rows of nodes, printed below their graphs. `name`: the field with a graph's name."""
    if not rows:
        return nothing(rows, empty)

    def show() -> None:
        for graph, of_graph in groupby(rows, key=itemgetter("graph")):
            first, *rest = of_graph
            render.line(_labelled(graph, first[name]), "bold")
            for row in (first, *rest):
                render.line(render.GAP + render.GAP.join(cells(row)))

    return Output(document=rows, text=show)


def _labelled(key: str, label: str) -> str:
    """Returns a key, followed by its label if that differs."""
    return key if letters(key) == letters(label) else f"{key}  {cut_name(label, MAX_LABEL_CHARS)}"


@command()
async def replace(
    services: Services,
    person: Person,
    language: Language,
    old: Annotated[str, argument("OLD", "The value that nodes refer to, exactly as written.")],
    new: Annotated[str, argument("NEW", "The new value.")],
    kind: KindOption = None,
    graphs: GraphsOption = None,
    resume: Annotated[
        str | None, option("--resume", "ID", "Continue an interrupted replacement.")
    ] = None,
    approve: Annotated[bool, flag("--approve", "Approve all parts at once.")] = False,
) -> Output:
    """Propose a replacement in all graphs that refer to a value: one proposal per graph."""
    in_graphs = None if graphs is None else tuple(graphs)
    wanted = Replacement(old=old, new=new, kind=kind, graphs=in_graphs)
    codemod = await services.codemods.propose(wanted, person, resume)
    if approve:
        codemod = await services.codemods.decide(codemod.id, Approve(), person)
    return _codemod(codemod, language)


@command(codemods, "list")
async def list_codemods(services: Services, person: Person) -> Output:
    """List the latest replacements over many graphs, with the states of their parts."""
    documents: list[Row] = []
    rows: list[list[str]] = []
    for codemod in await services.codemods.latest(person):
        first = codemod.parts[0].approval
        assert first is not None, "a listed replacement was proposed"
        states = {part.graph_key: _status(part) for part in codemod.parts}
        facts = {"createdTime": first.created, "reason": first.reason}
        documents.append({"codemodId": codemod.id, **facts, "graphs": states})
        counts = Counter(states.values()).items()
        counted = ", ".join(f"{count} {status}" for status, count in counts)
        rows.append([codemod.id, local_time(first.created), counted, first.reason])
    columns = ["id", "when", "graphs", "what"]
    return listing(documents, columns, rows, empty=NO_CODEMODS, folded=3)


@command(codemods, "show")
async def show(
    services: Services, person: Person, language: Language, codemod_id: IdArgument
) -> Output:
    """Show the current state of each graph's part."""
    return _codemod(await services.codemods.get(codemod_id, person), language)


@command(codemods, "approve")
async def approve(
    services: Services,
    person: Person,
    language: Language,
    codemod_id: IdArgument,
    graphs: GraphsOption = None,
) -> Output:
    """Approve the undecided parts; after an interruption, the remaining ones."""
    done = await services.codemods.decide(codemod_id, Approve(), person, graphs)
    return _codemod(done, language)


@command(codemods, "reject")
async def reject(
    services: Services,
    person: Person,
    language: Language,
    codemod_id: IdArgument,
    graphs: GraphsOption = None,
) -> Output:
    """Reject the undecided parts."""
    done = await services.codemods.decide(codemod_id, Reject(), person, graphs)
    return _codemod(done, language)


@command(codemods, "undo")
async def undo(
    services: Services,
    person: Person,
    language: Language,
    codemod_id: IdArgument,
    graphs: GraphsOption = None,
) -> Output:
    """Undo the applied parts, in one step."""
    return _codemod(await services.codemods.undo(codemod_id, person, graphs), language)


def _codemod(codemod: Codemod, language: Language) -> Output:
    """Returns the parts of a replacement; it fails if one was refused."""
    parts = [_part_document(part, language) for part in codemod.parts]
    refused = any(part.refused for part in codemod.parts)
    return Output(
        document={"codemodId": codemod.id, "parts": parts},
        text=partial(_show_codemod, codemod, language),
        exit_code=EXIT_FAILED if refused else 0,
    )


def _show_codemod(codemod: Codemod, language: Language) -> None:
    render.heading(codemod.id)
    rows = [_part_row(part, language) for part in codemod.parts]
    render.table(["graph", "status", "nodes", "outcome"], rows, folded=3)
    if any(part.approval and part.approval.is_open for part in codemod.parts):
        render.note(f"To decide: nodius codemods approve|reject {codemod.id} [--graph GRAPH]")


def _status(part: GraphPart) -> str:
    if part.refused is not None:
        return "refused"
    return part.approval.status if part.approval else ""


def _part_row(part: GraphPart, language: Language) -> list[str]:
    approval = part.approval
    changed = approval.effective_preview.get("nodesChanged", ()) if approval else ()
    outcome = outcome_text(approval, language) if approval else ""
    if part.refused and (refusal := describe(part.refused, language)):
        outcome = refusal.message
    return [part.graph_key, _status(part), str(len(changed)), outcome]


def _part_document(part: GraphPart, language: Language) -> Row:
    document: Row = {"graph": part.graph_key, "status": _status(part)}
    if part.approval:
        document["approval"] = approval_document(part.approval)
    if part.refused and (refusal := describe(part.refused, language)):
        document["error"] = {"code": refusal.code, "message": refusal.message}
    return document
