"""REST of graphs: list, read, import and export them."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Sequence
from typing import Annotated, Any, Literal
from urllib.parse import quote

from fastapi import APIRouter, Query, Request, Response
from pydantic import Field

from datasources.errors import GraphNotFound
from datasources.types import Document, Edge, Graph, Node
from graphrag.i18n import Language
from graphrag.importers.exchange import export_file, import_bytes
from graphrag.live import EditRefused
from graphrag.live.past_graph import present
from graphrag.retrieval.suggestions import suggest
from graphrag.workers import run_limited
from server.bodies import AnswerBody, Id, RequestBody
from server.downloads import Step
from server.error_schemas import ERRORS
from server.graph_json import GraphPages, Pages, export_steps, json_steps, whole_graph
from server.requests import (
    EDITORS,
    EXCLUDE_NONE,
    InLanguage,
    NamedGraph,
    Workspaces,
    state_of,
    text_query,
)
from server.workspaces import WorkspaceContext
from tools.node_meaning import facts_of, line_of

router = APIRouter(prefix="/api/graphs", tags=["graphs"], responses=ERRORS)
PAGE = 5000
PIECE = 500
MAX_MEANINGS = 300  # nodes of one request


class GraphSummary(AnswerBody):
    """`embedding`: nodes that wait to be embedded; `waiting`: proposals that nobody has decided.

    Units: times in milliseconds since 1970.
    """

    graph_key: str
    name: str
    workspace: str
    description: str | None = None
    category: str = "default"
    sheets: dict[str, str]
    nodes: int
    edges: int
    embedded: int
    embedding: int = 0
    waiting: int = 0
    revision: int
    created_time: int = 0
    last_updated_time: int = 0


class GraphList(AnswerBody):
    graphs: list[GraphSummary]


@router.get("", **EXCLUDE_NONE)
async def graphs(workspaces: Workspaces) -> GraphList:
    """Lists the graphs of the caller's workspaces."""
    summaries: list[GraphSummary] = []
    for place in await workspaces.all():
        waiting = Counter(
            approval.graph_key for approval in await place.services.approvals.waiting()
        )
        for graph in await place.services.source.list_graphs():
            try:
                summary = await _summary(place, graph)
            except GraphNotFound:  # deleted meanwhile
                continue
            summaries.append(
                GraphSummary.model_validate({**summary, "waiting": waiting[graph.key]})
            )
    return GraphList(graphs=summaries)


async def _summary(place: WorkspaceContext, graph: Graph) -> dict[str, Any]:
    stats = await place.services.source.get_stats(graph.key)
    embedder = place.services.embedder
    if embedder is not None:
        await embedder.resolve()
    return {
        "graphKey": graph.key,
        "name": graph.name,
        "workspace": graph.workspace,
        "description": graph.description,
        "category": graph.category,
        "sheets": graph.sheets_list,
        "nodes": stats.nodes,
        "edges": stats.edges,
        "embedded": stats.vectors.get(embedder.model, 0) if embedder else 0,
        "embedding": place.services.embedding_queue.pending(graph.key),
        "revision": graph.revision,
        "createdTime": graph.created_time,
        "lastUpdatedTime": graph.last_updated_time,
        "types": dict(stats.types),
    }


class ImportAnswer(AnswerBody):
    """`remarks` say what was dropped or repaired, and what a merge left as it was.

    Of an update: `taken` documents changed, `kept` are otherwise than in the file because people
    changed them, `conflicts` were changed by both; `approval` proposes the file's version of these.
    """

    graph_key: str
    format: str
    action: Literal["created", "updated", "unchanged"]
    nodes: int
    edges: int
    taken: int = 0
    kept: int = 0
    conflicts: int = 0
    approval: str | None = None
    remarks: list[str] = Field(default_factory=list[str])


_WORKFLOW: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "description": "A workflow's file: Nodius JSON, an n8n workflow or a Node-RED flow.",
        "content": {"application/json": {"schema": {}}},
    }
}


@router.post("/import", response_model=ImportAnswer, openapi_extra=_WORKFLOW, **EDITORS)
async def import_graph(
    request: Request,
    workspaces: Workspaces,
    language: InLanguage,
    graph_key: Annotated[
        str | None, text_query("Key of the graph it becomes.", alias="graphKey")
    ] = None,
    file_name: Annotated[
        str, text_query("What the file is called.", alias="fileName")
    ] = "workflow.json",
    replace: Annotated[
        bool, Query(description="Make a graph as the file is, whatever people changed in it since.")
    ] = False,
) -> ImportAnswer:
    """Imports a workflow as a new graph, or merge it into the graph that it made
    before. For editors.

    Of a graph that is there, what only the file changed is taken and what people changed stays;
    where both changed the same, `approval` proposes the file's version. `replace` takes the file as
    it is. Where people sign in, a new graph's key ends with a mark of its workspace: see `graphKey`
    of the answer.
    """
    place = await workspaces.one()
    done = await import_bytes(
        place.services.approvals,
        await request.body(),
        place.person,
        file_name=file_name,
        graph_key=graph_key,
        is_shared=state_of(request).authentication.authenticator.is_configured,
        replaces=replace,
    )
    place.services.embedding_queue.add(done.graph_key, None)
    return ImportAnswer.model_validate({**done.as_dict(language), "graph_key": done.graph_key})


class GraphDetail(GraphSummary):
    """`types` counts the nodes of each type; `configs` are the node types that the
    graph can use.
    """

    types: dict[str, int]
    configs: list[dict[str, Any]]


@router.get("/{graph_key}", **EXCLUDE_NONE)
async def graph(place: NamedGraph) -> GraphDetail:
    """Returns a graph with its counts and the node types that it can use."""
    configs = await place.services.source.get_node_configs()
    return GraphDetail.model_validate(
        {
            **await _summary(place, place.graph),
            "configs": [config.to_document() for config in configs],
        }
    )


class FirstQuestions(AnswerBody):
    """A summary of a graph, and first questions that can be answered without a model."""

    summary: str
    questions: list[str]
    language: Language


@router.get("/{graph_key}/suggestions")
async def suggestions(place: NamedGraph, language: InLanguage) -> FirstQuestions:
    """Returns a summary of a graph and first questions about it, made without a model."""
    suggested = await suggest(place.services.source, place.graph, language)
    return FirstQuestions(
        summary=suggested.summary, questions=list(suggested.questions), language=language
    )


class NodeMeaning(AnswerBody):
    """The effect of a node on one line; absent if its data do not show it."""

    node: str
    does: str | None = None


@router.get("/{graph_key}/meaning", **EXCLUDE_NONE)
async def meaning_of(
    request: Request,
    place: NamedGraph,
    node: Annotated[str, Query(min_length=1, max_length=200, description="The key of a node.")],
) -> NodeMeaning:
    """Returns the effect of a node as it is now in the live graph."""
    live = state_of(request).backend.live.get(place.person.workspace, place.graph.key)
    now = await present(place.services.source, live, place.graph.key, only=[node])
    if (current := now.state.node(node)) is None:
        raise EditRefused(where="node", reason=f"the graph has no node {node[:80]!r}")
    return NodeMeaning(node=node, does=line_of(facts_of(current)))


class MeaningsRequest(RequestBody):
    """The keys of the nodes."""

    nodes: Annotated[list[Id], Field(min_length=1, max_length=MAX_MEANINGS)]


class NodeMeanings(AnswerBody):
    """The effect of each node on one line, by key; nodes whose data do not show it are absent."""

    does: dict[str, str]


@router.post("/{graph_key}/meanings")
async def meanings_of(request: Request, place: NamedGraph, body: MeaningsRequest) -> NodeMeanings:
    """Returns the effects of some nodes as they are now in the live graph. Nodes that it has
    not are left out.
    """
    live = state_of(request).backend.live.get(place.person.workspace, place.graph.key)
    now = await present(place.services.source, live, place.graph.key, only=frozenset(body.nodes))

    def lines() -> dict[str, str]:
        read = {node.key: line_of(facts_of(node)) for node in now.state.iter_nodes()}
        return {key: line for key, line in read.items() if line is not None}

    return NodeMeanings(does=await run_limited(lines))


Sheet = Annotated[str | None, text_query("Of one sheet only.")]
After = Annotated[
    str | None,
    Query(max_length=200, description="Elements of greater keys: `next` of the page before."),
]
PageLimit = Annotated[int, Query(ge=1, le=PAGE, description="At most so many.")]


class NodePage(AnswerBody):
    """Nodes by key; `next` is the `after` of the next page, absent on the last one."""

    nodes: list[dict[str, Any]]
    next: str | None = None


@router.get("/{graph_key}/nodes", response_model=NodePage, **EXCLUDE_NONE)
async def nodes(
    request: Request,
    place: NamedGraph,
    sheet: Sheet = None,
    after: After = None,
    limit: PageLimit = PAGE,
) -> Response:
    """Returns the nodes of a graph, by key, in pages."""
    page = await place.services.source.get_nodes(
        place.graph.key, sheet=sheet, after=after, limit=limit + 1
    )
    return await _page(request, "nodes", page, limit)


class EdgePage(AnswerBody):
    """Edges by key; `next` is the `after` of the next page, absent on the last one."""

    edges: list[dict[str, Any]]
    next: str | None = None


@router.get("/{graph_key}/edges", response_model=EdgePage, **EXCLUDE_NONE)
async def edges(
    request: Request,
    place: NamedGraph,
    sheet: Sheet = None,
    after: After = None,
    limit: PageLimit = PAGE,
) -> Response:
    """Returns the edges of a graph, by key, in pages."""
    page = await place.services.source.get_edges(
        place.graph.key, sheet=sheet, after=after, limit=limit + 1
    )
    return await _page(request, "edges", page, limit)


async def _page(request: Request, name: str, found: Sequence[Node | Edge], limit: int) -> Response:
    """Answers with the first `limit` of the elements."""

    async def pieces() -> AsyncIterator[Sequence[Node | Edge]]:
        for i in range(0, min(limit, len(found)), PIECE):
            yield found[i : min(i + PIECE, limit)]

    following = found[limit - 1].key if len(found) > limit else None
    steps = json_steps({name: Pages(pages=pieces(), dump=Document.to_json), "next": following})
    return await state_of(request).activity.downloads.answer(request, steps)


ExportFormat = Literal["nodius", "n8n", "node-red"]


@router.get("/{graph_key}/export", response_model=Any)
async def export(
    request: Request,
    place: NamedGraph,
    form: Annotated[ExportFormat, Query(alias="format", description="Of which tool.")] = "nodius",
) -> Response:
    """Returns a graph as a file, which `import` takes: Nodius JSON, an n8n workflow
    or a Node-RED flow.

    A file of another tool is the one that the graph was read from, with what changed since; a graph
    that was none has to consist of that tool's types (422). `X-Left-Out` counts the kinds of things
    that the format has no place for: `copy` names them.
    """
    name = f"attachment; filename*=UTF-8''{quote(place.graph.key, safe='')}.json"
    headers = {"Content-Disposition": name}
    if form != "nodius":
        exported = await export_file(place.services.approvals, place.graph.key, form)
        headers["X-Left-Out"] = str(len(exported.report.notices))
        return Response(
            await run_limited(exported.text), media_type="application/json", headers=headers
        )

    def steps(content: GraphPages, _: int) -> AsyncIterator[Step]:
        return export_steps(place.services.source, content)

    return await whole_graph(request, place, steps, headers=headers)
