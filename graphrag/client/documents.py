"""The bodies of the REST service, as the server checks and the client reads them.

What a client sends is strict: an unknown key or another type is refused. What it is sent may grow:
a client leaves alone what it does not know.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints
from pydantic.alias_generators import to_camel

from graphrag.approvals.approval import MAX_FEEDBACK, Status

Id = Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]+$")]
ContextType = Literal["graph", "nodeConfig", "htmlClass", "home"]
MAX_MESSAGE = 100_000


def _whole(value: Any) -> Any:
    """Take 72.0 for 72: to JSON they are the same number."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


class Asked(BaseModel):
    """What a client sends."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, alias_generator=to_camel, allow_inf_nan=False
    )


class Answer(BaseModel):
    """What a client is sent."""

    model_config = ConfigDict(
        extra="ignore", frozen=True, alias_generator=to_camel, populate_by_name=True, allow_inf_nan=False
    )


class ChatRequest(Asked):
    """A message of a person about a graph; without `threadId` a new conversation.

    `interactive`: when the rounds of tools are used up, ask for more (`type: "tool_limit"`) in place of
    answering without tools.
    """

    graph_key: Id
    message: Annotated[str, Field(min_length=1, max_length=MAX_MESSAGE, pattern=r"\S")]
    thread_id: Id | None = None
    context_type: ContextType | None = None
    interactive: bool = False


class ResumeRequest(Asked):
    """A decision of what a conversation waits for; without `approvalId` of its oldest proposal.

    `interactive`: as in a chat request.
    """

    thread_id: Id
    approved: bool
    feedback: Annotated[str, Field(max_length=MAX_FEEDBACK)] | None = None
    approval_id: Id | None = None
    edited_action: dict[str, Any] | None = None
    interactive: bool = False


class ThreadsRequest(Asked):
    graph_key: Id | None = None
    context_type: ContextType | None = None
    limit: Annotated[int, Field(ge=1, le=1000), BeforeValidator(_whole)] = 100


class DecisionRequest(Asked):
    """`editedAction` is carried out in place of the proposed one; only with an approval. The audit log and
    the model get the `feedback` of either verdict."""

    verdict: Literal["approve", "reject"]
    feedback: Annotated[str, Field(max_length=MAX_FEEDBACK)] = ""
    edited_action: dict[str, Any] | None = None


class UndoRequest(Asked):
    """Which change is taken back; by default the graph's last that stands. With `turn`, everything that was
    applied of the change's turn, in one step."""

    approval_id: Id | None = None
    turn: bool = False


class ToolCallMade(Answer):
    name: str
    args: dict[str, Any] | str
    result: str
    error: bool = False


class ToolCallAsked(Answer):
    id: str
    name: str
    args: dict[str, Any]


class ApprovalWaiting(Answer):
    """Units: `expiresAt` in milliseconds since 1970."""

    id: str
    tool_call_id: str
    action: dict[str, Any]
    title: str = ""
    preview: dict[str, Any]
    reason: str = ""
    depends_on: list[str] = Field(default_factory=list[str])
    expires_at: int


class Applied(Answer):
    """A change that was carried out in this turn, and the graph's revision after it."""

    approval_id: str
    revision: int | None = None
    keys: dict[str, list[str]] = Field(default_factory=dict[str, list[str]])


class TokensUsed(Answer):
    """Units: tokens; `cost` in US dollars, absent where nobody knows the price."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    total_tokens: int = 0
    cost: float | None = None


class ContextNode(Answer):
    """A node that the model was shown for the message, and why: `text`, `vector`, `near`, …"""

    node_key: str
    reasons: list[str] = Field(default_factory=list[str])


class ChatAnswer(Answer):
    """How a turn ended: with an answer, with proposals that wait, or, if it is `interactive`, at the limit of
    tool rounds. `context` is what the model was shown of the graph, most relevant first; `words_only`: the
    embedding service failed, so it was found by its words alone."""

    thread_id: str
    type: Literal["message", "interrupt", "tool_limit"]
    message: str
    tool_calls: list[ToolCallMade] = Field(default_factory=list[ToolCallMade])
    usage: TokensUsed = TokensUsed()
    applied: list[Applied] = Field(default_factory=list[Applied])
    context: list[ContextNode] = Field(default_factory=list[ContextNode])
    words_only: bool | None = None
    proposed_action: dict[str, Any] | None = None
    tool_call: ToolCallAsked | None = None
    code_diffs: list[dict[str, Any]] | None = None
    approvals: list[ApprovalWaiting] | None = None
    rounds_used: int | None = None
    max_extended: int | None = None


class ThreadSummary(Answer):
    """Units: times in milliseconds since 1970, cost in US dollars. `status`: where the last turn stands."""

    thread_id: str
    graph_key: str
    context_type: str | None = None
    title: str = ""
    total_tokens: int = 0
    total_cost: float = 0.0
    provider: str | None = None
    model: str | None = None
    message_count: int = 0
    tool_call_count: int = 0
    created_time: int = 0
    last_updated_time: int = 0
    status: str = "idle"


class ThreadList(Answer):
    threads: list[ThreadSummary]


class ThreadMessages(Answer):
    """Messages in OpenAI's form; `status` says where the last turn stands."""

    thread_id: str
    conversation_history: list[dict[str, Any]]
    pending_interrupt: dict[str, Any] | None = None
    status: str = "idle"


class Success(Answer):
    success: bool = True


class GraphSummary(Answer):
    """`embedding`: nodes that wait to be embedded. Units: times in milliseconds since 1970."""

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
    revision: int
    created_time: int = 0
    last_updated_time: int = 0


class GraphList(Answer):
    graphs: list[GraphSummary]


class GraphDetail(GraphSummary):
    """`types` counts the nodes of each type; `configs` are the node types that the graph can use."""

    types: dict[str, int]
    configs: list[dict[str, Any]]


class NodePage(Answer):
    """Nodes by key; `next` is the `after` of the next page, absent on the last one."""

    nodes: list[dict[str, Any]]
    next: str | None = None


class EdgePage(Answer):
    """Edges by key; `next` is the `after` of the next page, absent on the last one."""

    edges: list[dict[str, Any]]
    next: str | None = None


class ImportAnswer(Answer):
    """`remarks` say what was dropped or repaired, and what a merge left as it was.

    Of an update: `taken` documents changed, `kept` are otherwise than in the file because people changed
    them, `conflicts` were changed by both; `approval` proposes the file's version of these.
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


class ApprovalDocument(Answer):
    """An approval as stored, without what only an undo needs.

    `title` says in a person's words what it does, `outcome` what became of it.
    """

    id: str
    workspace: str
    graph_key: str
    thread_id: str
    turn: int
    tool_call_id: str
    status: Status
    action: dict[str, Any]
    preview: dict[str, Any]
    reason: str = ""
    user_id: str
    model: str
    base_revision: int
    created_time: int
    expires_time: int
    depends_on: list[str] = Field(default_factory=list[str])
    code_diffs: list[dict[str, Any]] = Field(default_factory=list[dict[str, Any]])
    decision: dict[str, Any] | None = None
    result: dict[str, Any] | None = None
    undoes: str | None = None
    undoes_also: list[str] = Field(default_factory=list[str])
    undone_by: str | None = None
    title: str = ""
    outcome: str = ""


class ApprovalList(Answer):
    approvals: list[ApprovalDocument]


class AuditList(Answer):
    entries: list[dict[str, Any]]


class AuditVerdict(Answer):
    workspace: str
    sound: bool
    entries: int
    head: str
    faults: list[str] = Field(default_factory=list[str])


class DeedDocument(Answer):
    """A live edit. Units: `time` in milliseconds since 1970.

    `steps` say what was done: `{type, keys, field?, name?}`. `takesBack` is the edit that it took back,
    `takenBackBy` the one that took it back. Not `saved`: it is journalled and waits for the next save.
    """

    id: str
    time: int
    user_id: str
    saved: bool
    steps: list[dict[str, Any]]
    takes_back: str | None = None
    taken_back_by: str | None = None


class HistoryAnswer(Answer):
    """Live edits, newest first."""

    edits: list[DeedDocument]


class EditUndone(Answer):
    """An edit was taken back by another one, `id`, which can be taken back in its turn.

    `messages` are what editors were told of it.
    """

    id: str
    taken_back: str
    revision: int
    messages: list[dict[str, Any]]


class ModelUsage(Answer):
    provider: str
    model: str
    threads: int
    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    cost: float


class UsageStanding(Answer):
    """A limit of this month (UTC) that counts for the caller. Units: tokens, US dollars; absent: none."""

    whose: Literal["person", "workspace", "service"]
    workspace: str
    used_tokens: int
    used_cost: float
    max_tokens: int | None = None
    max_cost: float | None = None


class PersonUsage(Answer):
    user_id: str
    threads: int
    total_tokens: int
    cost: float


class UsageAnswer(Answer):
    """What the caller's own conversations used, and their limits. Units: tokens, US dollars.

    `people`: what everybody's conversations in these workspaces used, for admins.
    """

    threads: int
    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    cost: float
    models: list[ModelUsage]
    limits: list[UsageStanding] = Field(default_factory=list[UsageStanding])
    people: list[PersonUsage] = Field(default_factory=list[PersonUsage])


class WhoAmI(Answer):
    """Who is calling, and which model answers them; `offline`: no language model is configured."""

    user_id: str
    username: str
    role: str
    workspaces: list[str]
    provider: str
    model: str
    offline: bool
    language: Literal["en", "fr"]


class ErrorFacts(Answer):
    code: str
    message: str
    retryable: bool
    request_id: str = ""
    details: Any = None


class ErrorAnswer(Answer):
    error: ErrorFacts
