"""What the server sends of conversations, reviews, runs and calls: the form of each message.

A field that may be absent says so by `ABSENT`; one that may be null by its type.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from graphrag.agent.thread_agent import EndReason
from graphrag.agents.model_refusal import ModelRefusal
from graphrag.approvals.conflicts import Conflict
from graphrag.bridge.transcript import SpeakerRole
from graphrag.roles import Role
from graphrag.sessions.machine import EndReason as RunEndReason
from graphrag.sessions.phases import Phase
from graphrag.voice.call_records import CallStatus, CallSummary
from server.approval_documents import ApprovalDocument
from server.channels.rest_answers import TokensUsed

ABSENT: Any = Field(default_factory=lambda: None)
Id = Annotated[int | float, Field(alias="_id", description="That of the message that is answered.")]
Time = Annotated[int, Field(description="Milliseconds since 1970.")]


class SentMessage(BaseModel):
    model_config = ConfigDict(
        extra="forbid", strict=True, alias_generator=to_camel, allow_inf_nan=False
    )


class AuthResult(SentMessage):
    """Whether somebody is signed in, and who; `error` says why not. Also comes
    when a token expires.
    """

    type: Literal["authResult"]
    id: Id = ABSENT
    success: bool
    user_id: str = ABSENT
    username: str = ABSENT
    workspaces: list[str] = ABSENT
    role: Role = ABSENT
    error: str = ABSENT


class Pong(SentMessage):
    """Answers `__ping__`."""

    type: Literal["__pong__"]
    id: Id = ABSENT


class _OfTurn(SentMessage):
    id: Id


class AnswerPiece(_OfTurn):
    """A piece of the answer, as it may be shown."""

    type: Literal["ai:token"]
    token: str


class PromptReading(_OfTurn):
    """How much of the prompt a local model has read. `loading`: its server still loads
    it. Units: tokens.
    """

    type: Literal["ai:progress"]
    prompt_read: int
    prompt_tokens: int
    loading: Literal[True] = ABSENT


class ToolBegun(_OfTurn):
    """The model writes a call; once a call."""

    type: Literal["ai:tool_start"]
    tool_call_id: str
    tool_name: str


class ToolEnded(_OfTurn):
    """A call has its answer. `arguments`: as the model wrote them. Who
    follows a thread gets 20,000 characters of the result.
    """

    type: Literal["ai:tool_result"]
    tool_call_id: str
    result: str
    arguments: str
    is_error: bool


class UsageOfCall(_OfTurn):
    """Tokens of one call of the model: a client adds them up. `cost` in dollars, where its
    price is known.
    """

    type: Literal["ai:usage"]
    usage: TokensUsed


class AppliedAction(SentMessage):
    """What was carried out, as an editor applies it; a client that has it already
    finds the same.
    """

    instructions: list[dict[str, Any]]
    nodes_to_create: list[dict[str, Any]]
    edges_to_create: list[dict[str, Any]]
    node_keys_to_delete: list[str]
    edge_keys_to_delete: list[str]
    node_configs_to_upsert: list[dict[str, Any]] = ABSENT
    node_keys_to_reorganize: list[str] = ABSENT
    sheet_id: str


class ActionCarriedOut(_OfTurn):
    """A proposal was approved and is applied; the turn goes on. `revision`: of the
    graph after it.
    """

    type: Literal["ai:apply_action"]
    action: AppliedAction
    applied: Literal[True]
    revision: int | None
    approval_id: str


class RoundsUsed(_OfTurn):
    """The model wants more rounds of tools: `ai:resume` grants them, or asks for the answer."""

    type: Literal["ai:tool_limit"]
    rounds_used: int
    max_extended: int


class ConversationOver(SentMessage):
    """Why a conversation with an agent ended, and the outcome by its document's rules."""

    reason: EndReason | None
    outcome: str | None


class ClaimsNotInGraph(SentMessage):
    nodes: list[str]
    edges: list[tuple[str, str]]
    note: str


class TurnComplete(_OfTurn):
    """The end of a turn. `fullText` is the answer, or JSON with the `type` interrupt,
    tool_limit or question.

    `contextNodes`: keys of the nodes that the model was shown; `sources`: of those that the answer
    rests on (`nodes`, `path`, `behind`); `wordsOnly`: found by words alone; `stopped`: by a person;
    `notInGraph`: what the answer claims that the graph does not have, with a `note` for people.
    """

    type: Literal["ai:complete"]
    thread_id: str
    full_text: str
    context_nodes: list[str] = ABSENT
    words_only: Literal[True] = ABSENT
    sources: dict[Literal["nodes", "path", "behind", "runs", "stops"], list[str]] = ABSENT
    stopped: Literal[True] = ABSENT
    ended: ConversationOver = ABSENT
    not_in_graph: ClaimsNotInGraph = ABSENT


WireCode = Literal[
    "rate_limit", "server_error", "auth_error", "timeout", "network", "content_filter", "context_length",
    "internal", "invalid_message", "not_found", "forbidden", "busy", "stale",
]  # fmt: skip


class ErrorDetails(SentMessage):
    """Where it happened, after how many seconds to try again, and a provider's own words."""

    thread_id: str = ABSENT
    retry_after_s: int | float = ABSENT
    reason: str = ABSENT


class AiError(SentMessage):
    """Ends a turn that broke off, or refuses a message. `error` is for people,
    `code` for programs.
    """

    type: Literal["ai:error"]
    id: Id = ABSENT
    error: str
    code: WireCode
    retryable: bool
    details: ErrorDetails = ABSENT


class ConversationEnded(_OfTurn):
    """Answers `ai:end`."""

    type: Literal["ai:ended"]
    thread_id: str
    reason: EndReason | None
    outcome: str | None


class FollowTurn(_OfTurn):
    """Another connection runs a turn. `here`: its messages follow, from its beginning; else
    read the thread.

    `message`: what was asked, where it is not a turn that goes on after a decision.
    """

    type: Literal["ai:follow_turn"]
    thread_id: str
    here: bool
    message: str = ABSENT


class FollowEnd(_OfTurn):
    """The client that ran the followed turn went away: how it ended is stored."""

    type: Literal["ai:follow_end"]
    thread_id: str


class ReviewEntry(SentMessage):
    """A decision, or what else happened to a proposal."""

    approval_id: str = ABSENT
    graph_key: str = ABSENT
    thread_id: str = ABSENT
    event: str = ABSENT
    asker: str = ABSENT
    user_id: str = ABSENT
    at: Time


class ReviewState(_OfTurn):
    """What waits in a workspace (a count for each graph), how much of it the person may decide, and
    what was decided since the last.

    After `approvals: true` also what is new or changed, and all conflicts; `complete`
    false: list them.
    """

    type: Literal["ai:review"]
    workspace: str
    waiting: dict[str, int]
    decidable: dict[str, int]
    decided: list[ReviewEntry]
    approvals: list[ApprovalDocument] = ABSENT
    conflicts: list[Conflict] = ABSENT
    complete: bool = ABSENT


class RunState(_OfTurn):
    """The phase of a run of an automation, or of one's own conversation, at once and at each
    change. `waiting`: for what, by `type`. A conversation has no `automationId` and no
    `roundtrips`.
    """

    type: Literal["ai:session_state"]
    session_id: str
    kind: Literal["automation", "chat"]
    graph_key: str
    phase: Phase
    time: Time
    automation_id: str = ABSENT
    roundtrips: int = ABSENT
    end_reason: RunEndReason = ABSENT
    waiting: dict[str, Any] = ABSENT


class _OfCall(_OfTurn):
    call_id: str


class CallStanding(_OfCall):
    """Where the call stands. `modelError`: what the service of its model refused last."""

    type: Literal["call:state"]
    status: CallStatus
    agent_id: str = ABSENT
    model_error: ModelRefusal = ABSENT


class CallWords(_OfCall):
    """What was said: the whole text each time, under its `itemId`. `time`: seconds since
    the call began.

    Of an interrupted answer the caller heard `heardMs` milliseconds, and not the
    words in `unheard`.
    """

    type: Literal["call:said"]
    item_id: str = ABSENT
    role: SpeakerRole
    text: str
    final: bool
    interrupted: Literal[True] = ABSENT
    heard_ms: int = ABSENT
    unheard: str = ABSENT
    time: int | float = ABSENT
    timestamp: str = ABSENT


class CallTool(_OfCall):
    """A tool that the agent runs. `ok` absent: not known. `status`: of HTTP. Units:
    `ms` in milliseconds.
    """

    type: Literal["call:tool"]
    tool_call_id: str
    name: str
    phase: Literal["started", "finished"]
    ok: bool | None = ABSENT
    ms: int = ABSENT
    status: int = ABSENT
    turn: int = ABSENT


class CallSources(_OfCall):
    """The nodes that a tool returned for what the caller said last."""

    type: Literal["call:sources"]
    turn: int
    graph: str
    revision: int
    nodes: list[str]


class CallProposal(_OfCall):
    """The agent proposed a change; `spokenCode` is what it is called on the telephone."""

    type: Literal["call:proposal"]
    approval_id: str
    voice_code: Annotated[str, Field(alias="spokenCode")]


class CallFinished(_OfCall):
    """The call is over."""

    type: Literal["call:ended"]
    outcome: str | None
    reason: EndReason | None


class ListedCall(CallSummary):
    model_config = ConfigDict(extra="forbid")


class CallListed(_OfTurn):
    """A call that is open, or has changed, as `GET /api/calls` lists it."""

    type: Literal["call:listed"]
    call: ListedCall


class Subscribed(_OfTurn):
    """Answers `ai:follow`, `ai:watch`, `ai:sessions`, `call:follow` and `calls:watch`; what happens
    follows, in a call and in a turn from its beginning, under the same `_id`.
    """

    type: Literal["ai:following", "ai:watching", "ai:sessions", "call:following", "calls:watching"]
    thread_id: str = ABSENT
    call_id: str = ABSENT
