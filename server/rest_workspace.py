"""REST over all graphs: uses of a value, and replacements in many graphs."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query
from pydantic import Field

from datasources.uses import MAX_VALUE, UseKind, entries_for, uses_of
from graphrag.approvals import Approve, Reject
from graphrag.approvals.approval import MAX_FEEDBACK
from graphrag.approvals.codemods import Codemod, Replacement
from graphrag.i18n import Language
from server.approval_documents import ApprovalDocument, ApprovalListing
from server.bodies import AnswerBody, Id, RequestBody
from server.error_responses import error_response
from server.error_schemas import ERRORS
from server.requests import EXCLUDE_NONE, InLanguage, NamedGraph, Workspaces
from server.workspaces import WorkspaceContext
from tools.read_tools.search_workspace import use_rows
from tools.secret_texts import redacted

router = APIRouter(prefix="/api", tags=["all graphs"], responses=ERRORS)
MAX_USES = 1_000
MAX_VALUES = 20


class NodeUse(AnswerBody):
    """A node that refers to the value: the kind of use, the text there, and the fields."""

    graph: str
    graph_name: str
    key: str
    name: str
    type: str
    kind: UseKind
    value: str
    field: str


class Uses(AnswerBody):
    """`more`: there are more than are listed."""

    uses: list[NodeUse]
    more: bool = False


@router.get("/uses")
async def uses(
    workspaces: Workspaces,
    value: Annotated[
        str, Query(min_length=1, max_length=MAX_VALUE, description="Taken literally.")
    ],
    kind: Annotated[UseKind | None, Query(description="As one kind of reference only.")] = None,
    limit: Annotated[
        int, Query(ge=1, le=MAX_USES, description="At most so many nodes.")
    ] = MAX_USES,
) -> Uses:
    """Finds the nodes of all graphs that refer to a value: a credential, address, table, queue,
    file or model. An address also finds those below it: `api.example.com/v1`.
    """
    entries = entries_for(value, kind)
    nodes: list[NodeUse] = []
    for place in await workspaces.all():
        users = await place.services.source.find_users(entries, limit=limit + 1)
        titles = {one.graph_key: one.graph_name for one in users}
        for row in use_rows(users, frozenset(entries)):
            named = {**row, "key": row["_key"], "graphName": titles[row["graph"]]}
            nodes.append(NodeUse.model_validate(named))
    return Uses(uses=nodes[:limit], more=len(nodes) > limit)


class NodeValue(AnswerBody):
    """A value that a node refers to; `others`: the number of other nodes of all graphs that do."""

    value: str
    kind: UseKind
    others: int


class NodeValues(AnswerBody):
    values: list[NodeValue]


@router.get("/graphs/{graph_key}/nodes/{node_key}/uses")
async def uses_of_node(place: NamedGraph, node_key: Id) -> NodeValues:
    """Returns the values that a node refers to, and how many other nodes depend on each."""
    source = place.services.source
    nodes = await source.get_nodes_by_key(place.graph.key, [node_key])
    values: dict[tuple[UseKind, str], None] = dict.fromkeys(
        (use.kind, use.value) for node in nodes for use in uses_of(node)
    )
    shown: list[NodeValue] = []
    for kind, value in list(values)[:MAX_VALUES]:
        if len(value) <= MAX_VALUE:
            users = await source.find_users(entries_for(value, kind), limit=MAX_USES)
            others = sum(
                (one.graph_key, one.node.key) != (place.graph.key, node_key) for one in users
            )
            shown.append(NodeValue(value=redacted(value).text, kind=kind, others=others))
    return NodeValues(values=shown)


class CodemodGraphs(RequestBody):
    """`graphs` None: all of them."""

    graphs: Annotated[list[Id], Field(min_length=1, max_length=1000)] | None = None


class CodemodRequest(CodemodGraphs):
    """`old` is replaced by `new` where nodes refer to it. With the `codemodId` of one that was
    interrupted, the graphs that it left out follow.
    """

    old: Annotated[str, Field(min_length=1, max_length=MAX_VALUE)]
    new: Annotated[str, Field(min_length=1, max_length=MAX_VALUE)]
    kind: UseKind | None = None
    codemod_id: Id | None = None


class CodemodPart(AnswerBody):
    """The proposal of one graph; `error` and `message`: why there is none, or why it was not
    carried out.
    """

    graph_key: str
    approval: ApprovalDocument | None = None
    error: str | None = None
    message: str | None = None


class CodemodDocument(AnswerBody):
    codemod_id: str
    parts: list[CodemodPart]


async def _named(workspaces: Workspaces, codemod_id: Id) -> tuple[WorkspaceContext, Codemod]:
    return await workspaces.of_codemod(codemod_id)


NamedCodemod = Annotated[tuple[WorkspaceContext, Codemod], Depends(_named)]


def _document(place: WorkspaceContext, codemod: Codemod, language: Language) -> CodemodDocument:
    parts: list[CodemodPart] = []
    listing = ApprovalListing(language)
    for part in codemod.parts:
        answer = error_response(part.refused, language) if part.refused else None
        shown = listing.document(place, part.approval) if part.approval else None
        more: dict[str, Any] = {"error": answer.code, "message": answer.message} if answer else {}
        parts.append(CodemodPart(graph_key=part.graph_key, approval=shown, **more))
    return CodemodDocument(codemod_id=codemod.id, parts=parts)


@router.post("/codemods", **EXCLUDE_NONE)
async def propose(
    workspaces: Workspaces, language: InLanguage, body: CodemodRequest
) -> CodemodDocument:
    """Proposes a replacement in many graphs: one proposal a graph, each with its preview."""
    graphs = None if body.graphs is None else tuple(body.graphs)
    wanted = Replacement(old=body.old, new=body.new, kind=body.kind, graphs=graphs)
    place = await workspaces.one()
    codemod = await place.services.codemods.propose(wanted, place.person, body.codemod_id)
    return _document(place, codemod, language)


@router.get("/codemods/{codemod_id}", **EXCLUDE_NONE)
async def codemod(named: NamedCodemod, language: InLanguage) -> CodemodDocument:
    """Returns a replacement over many graphs, with each graph's proposal as it stands."""
    place, replacement = named
    return _document(place, replacement, language)


class CodemodDecision(CodemodGraphs):
    verdict: Literal["approve", "reject"]
    feedback: Annotated[str, Field(max_length=MAX_FEEDBACK)] = ""


@router.post("/codemods/{codemod_id}/decision", **EXCLUDE_NONE)
async def decide(
    named: NamedCodemod, language: InLanguage, body: CodemodDecision
) -> CodemodDocument:
    """Decides the waiting parts, each by itself. Called again, it continues with the remaining
    ones.
    """
    place, replacement = named
    decision = Approve(body.feedback) if body.verdict == "approve" else Reject(body.feedback)
    done = await place.services.codemods.decide(replacement.id, decision, place.person, body.graphs)
    return _document(place, done, language)


@router.post("/codemods/{codemod_id}/undo", **EXCLUDE_NONE)
async def undo(named: NamedCodemod, language: InLanguage, body: CodemodGraphs) -> CodemodDocument:
    """Undoes the applied parts: in all graphs, or in some. A graph that was changed since is
    reported.
    """
    place, replacement = named
    done = await place.services.codemods.undo(replacement.id, place.person, body.graphs)
    return _document(place, done, language)
