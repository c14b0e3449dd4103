"""REST of declarative agents: documents, states, trials of their tools, deliveries to
their APIs.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Header, Query
from pydantic import Field

from graphrag.agents.agent_view import AgentSummary
from graphrag.agents.deliveries import DeliveryDocument
from graphrag.agents.document import agent_schema
from graphrag.agents.errors import DeliveryNotFound, InvalidAgent
from graphrag.agents.trying import try_document, try_tool
from graphrag.delivery_queue import DeliveryStatus
from server.bodies import AnswerBody, Id, RequestBody, Success
from server.error_schemas import ERRORS
from server.requests import ADMINS, EXCLUDE_NONE, REVIEWERS, Limit, Workspaces
from tools.http.problems import DocumentProblem

router = APIRouter(prefix="/api", tags=["agents"], responses=ERRORS)

Document = Annotated[dict[str, Any] | Annotated[str, Field(max_length=300_000)], Field()]
Variables = Annotated[dict[str, str], Field(max_length=200)]
Version = Annotated[int, Field(ge=1)]


class AgentSummaryList(AnswerBody):
    """`lists`: the result of the last round of each list (see `nodius agents sync`)."""

    agents: list[AgentSummary]
    lists: list[dict[str, Any]]


class VersionSummary(AnswerBody):
    version: int
    created_time: int
    user_id: str
    size: int = 0


class AgentDetail(AnswerBody):
    """An agent with one version of its document, and the versions that are kept, newest first."""

    agent: AgentSummary
    version: int
    document: dict[str, Any]
    variables: dict[str, str]
    versions: list[VersionSummary]


class DocumentRequest(RequestBody):
    """A document as an object, or as text (JSON or YAML). `variables` replace
    `${NAME}` in its texts.
    """

    document: Document
    variables: Variables = Field(default_factory=dict[str, str])
    base_url: Annotated[str, Field(max_length=2_000)] | None = None


class AgentChecked(AnswerBody):
    """A document without errors. One with errors is refused: 422 `invalid_agent`,
    with warnings too.
    """

    ok: Literal[True] = True
    warnings: tuple[DocumentProblem, ...]


class AgentApplied(AnswerBody):
    """`changed`: a new version was stored; the same document as the current one is none."""

    agent: AgentSummary
    changed: bool
    warnings: tuple[DocumentProblem, ...]


class StopRequest(RequestBody):
    """With `now` open conversations end; without it they go on."""

    now: bool = False


class RollbackRequest(RequestBody):
    version: Version


class TryRequest(RequestBody):
    """Arguments, and values of ctx. A dry run sends nothing and shows the requests."""

    args: dict[str, Any] = Field(default_factory=dict[str, Any])
    ctx: dict[str, Any] = Field(default_factory=dict[str, Any])
    dry_run: bool = True
    version: Version | None = None


class TryDocumentRequest(RequestBody):
    """A document that need not be stored, the name of a tool, its arguments, and values of ctx. A
    dry run sends nothing and shows the requests.
    """

    document: Document
    tool: Annotated[str, Field(min_length=1, max_length=200)]
    args: dict[str, Any] = Field(default_factory=dict[str, Any])
    ctx: dict[str, Any] = Field(default_factory=dict[str, Any])
    dry_run: bool = True


class TriedRequest(AnswerBody):
    """A request, its secrets masked. If it was sent: its time, and the status and answer as JSON
    text (its first 16,000 characters), or the `code` of the reason why there is none.
    """

    method: str
    url: str
    headers: dict[str, str]
    body: Any = None
    ms: int | None = None
    status: int | None = None
    answer: str | None = None
    code: str | None = None


class TryAnswer(AnswerBody):
    """The requests; if they were sent, also the result for the model and the stored values."""

    requests: list[TriedRequest] | None = None
    ok: bool | None = None
    status: int | None = None
    ms: int | None = None
    result: Any = None
    stored: list[str] | None = None
    flags: list[str] | None = None


class DeliveryList(AnswerBody):
    deliveries: list[DeliveryDocument]


IfMatch = Annotated[
    str | None,
    Header(
        pattern=r'^"?(0|[1-9][0-9]{0,8})"?$',
        description="The version that was read; 0: there is none.",
    ),
]


@router.get("/agents", **EXCLUDE_NONE)
async def agents(workspaces: Workspaces) -> AgentSummaryList:
    """Lists the agents of the caller's workspaces, with state and health, by id."""
    summaries = await workspaces.each(lambda place: place.services.agents.list())
    lists = await workspaces.each(lambda place: place.services.agents.lists.reports())
    return AgentSummaryList(agents=summaries, lists=lists)


@router.get("/agents/schema")
async def schema(workspaces: Workspaces) -> dict[str, Any]:  # noqa: ARG001 - for who is signed in
    """Returns the JSON Schema of an agent document."""
    return agent_schema()


@router.post("/agents/check", **EXCLUDE_NONE, **ADMINS)
async def check(workspaces: Workspaces, body: DocumentRequest) -> AgentChecked:
    """Checks a document and its requirements, and stores nothing. For admins.

    A document with errors is refused: 422 `invalid_agent`, with the errors in `details`, and
    `warnings`.
    """
    place = await workspaces.one()
    checked = await place.services.agents.check(
        body.document, body.variables, base_url=body.base_url
    )
    if checked.errors:
        raise InvalidAgent(errors=checked.errors, warnings=checked.warnings)
    return AgentChecked.model_validate(checked)


@router.get("/agents/{agent_id}", **EXCLUDE_NONE)
async def agent(
    workspaces: Workspaces,
    agent_id: Id,
    version: Annotated[
        int | None, Query(ge=1, description="Another version than the current one.")
    ] = None,
) -> AgentDetail:
    """Returns an agent with its document."""
    place, stored = await workspaces.of_agent(agent_id)
    shown = await place.services.agents.document(agent_id, version)
    return AgentDetail(
        agent=await place.services.agents.view(agent_id),
        version=shown.version,
        document=shown.document,
        variables=shown.variables,
        versions=[VersionSummary.model_validate(each) for each in reversed(stored.versions)],
    )


@router.put("/agents/{agent_id}", **EXCLUDE_NONE, **ADMINS)
async def put(
    workspaces: Workspaces, agent_id: Id, body: DocumentRequest, if_match: IfMatch = None
) -> AgentApplied:
    """Stores a document as the new version of the agent, for conversations that start from now on.
    For admins.
    """
    place = await workspaces.one()
    done = await place.services.agents.apply(
        body.document,
        place.person,
        variables=body.variables,
        base_url=body.base_url,
        agent_id=agent_id,
        expected_version=None if if_match is None else int(if_match.strip('"')),
    )
    view = await place.services.agents.view(agent_id)
    return AgentApplied(agent=view, changed=done.changed, warnings=done.warnings)


@router.delete("/agents/{agent_id}", **ADMINS)
async def delete(workspaces: Workspaces, agent_id: Id) -> Success:
    """Deletes a stopped agent without open conversations, with all its versions. For admins."""
    place, _ = await workspaces.of_agent(agent_id)
    await place.services.agents.delete(agent_id)
    return Success()


@router.post("/agents/{agent_id}/start", **EXCLUDE_NONE, **ADMINS)
async def start(workspaces: Workspaces, agent_id: Id) -> AgentSummary:
    """Starts an agent: it accepts conversations. Missing requirements are reported, and checked
    each minute. For admins.
    """
    place, _ = await workspaces.of_agent(agent_id)
    await place.services.agents.start(agent_id)
    return await place.services.agents.view(agent_id)


@router.post("/agents/{agent_id}/stop", **EXCLUDE_NONE, **ADMINS)
async def stop(
    workspaces: Workspaces, agent_id: Id, body: StopRequest | None = None
) -> AgentSummary:
    """Stops an agent: no new conversation starts; with `now`, open ones end. For admins."""
    place, _ = await workspaces.of_agent(agent_id)
    await place.services.agents.stop(agent_id)
    if body is not None and body.now:
        await place.services.life.endings.end_all(agent_id=agent_id)
    return await place.services.agents.view(agent_id)


@router.post("/agents/{agent_id}/rollback", **EXCLUDE_NONE, **ADMINS)
async def rollback(workspaces: Workspaces, agent_id: Id, body: RollbackRequest) -> AgentSummary:
    """Makes a stored version the current one. For admins."""
    place, _ = await workspaces.of_agent(agent_id)
    await place.services.agents.rollback(agent_id, body.version)
    return await place.services.agents.view(agent_id)


@router.post("/agents/{agent_id}/tools/{name}/try", **EXCLUDE_NONE, **ADMINS)
async def try_one(workspaces: Workspaces, agent_id: Id, name: Id, body: TryRequest) -> TryAnswer:
    """Runs one HTTP tool by itself. By default nothing is sent, and the requests are returned. For
    admins.
    """
    place, _ = await workspaces.of_agent(agent_id)
    result = await try_tool(
        place.services.agents,
        agent_id,
        name,
        body.args,
        body.ctx,
        place.services.life.locale,
        version=body.version,
        sends=not body.dry_run,
    )
    return TryAnswer.model_validate(result)


@router.post("/agent-trials", **EXCLUDE_NONE, **ADMINS)
async def try_document_tool(workspaces: Workspaces, body: TryDocumentRequest) -> TryAnswer:
    """Runs one HTTP tool of a document that need not be stored. By default nothing is sent. For
    admins.
    """
    place = await workspaces.one()
    result = await try_document(
        place.services.agents,
        body.document,
        body.tool,
        body.args,
        body.ctx,
        place.services.life.locale,
        sends=not body.dry_run,
    )
    return TryAnswer.model_validate(result)


@router.get("/deliveries", **EXCLUDE_NONE, **REVIEWERS)
async def deliveries(
    workspaces: Workspaces,
    agent_id: Annotated[str | None, Query(alias="agentId", min_length=1, max_length=200)] = None,
    call_id: Annotated[str | None, Query(alias="callId", min_length=1, max_length=200)] = None,
    status: DeliveryStatus | None = None,
    limit: Limit = 100,
) -> DeliveryList:
    """Lists deliveries to the APIs of agents, the next due ones first. For reviewers."""
    listed = await workspaces.each(
        lambda place: place.services.life.deliveries.list(
            agent_id=agent_id, call_id=call_id, status=status, limit=limit
        )
    )
    return DeliveryList(deliveries=list(map(DeliveryDocument.model_validate, listed[:limit])))


@router.post("/deliveries/{delivery_id}/retry", **EXCLUDE_NONE, **ADMINS)
async def retry(workspaces: Workspaces, delivery_id: Id) -> DeliveryDocument:
    """Sends a delivery now that waits, was refused or given up. For admins."""
    missing = DeliveryNotFound(delivery_id=delivery_id)
    _, sent = await workspaces.first_of(
        lambda place: place.services.life.deliveries.retry(delivery_id), missing
    )
    return DeliveryDocument.model_validate(sent)
