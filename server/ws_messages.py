"""The messages a WebSocket client may send, strict: an unknown key, type or form is
refused by name.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, cast, get_args

import orjson
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from graphrag.commands import SentBlock
from server.bodies import RequestBody

MAX_CHARS = 4 * 1024 * 1024
"""Longest frame that is read at all. Units: characters."""
MAX_TEXT = 100_000
MAX_INSTRUCTIONS = 4_000
MAX_ELEMENTS = 2_000
MAX_IDS = 1_000
MAX_SHOWN = 20
"""Elements that others see as selected by somebody."""


class InvalidMessage(Exception):
    """A frame is no message of the protocol; the text says where and what to send instead.

    `type` and `id` are those of the frame, where it has any that can be answered.
    """

    def __init__(self, *, reason: str, type: str | None = None, id: float | None = None) -> None:
        self.reason = reason
        self.type = type
        self.id = id
        super().__init__(reason)


class _Message(BaseModel):
    model_config = RequestBody.model_config


Id = Annotated[int | float, Field(alias="_id")]
OptionalId = Annotated[int | float | None, Field(alias="_id")]
Key = Annotated[str, Field(min_length=1, max_length=400)]
Name = Annotated[str, Field(min_length=1, max_length=400)]
Coordinate = Annotated[int | float | None, Field(ge=-1e9, le=1e9)]
Features = Annotated[
    list[Annotated[str, Field(max_length=40)]], Field(max_length=20, default_factory=list[str])
]
"""What a client can show beyond what every client can (`questions`); others are ignored."""


class Authenticate(_Message):
    """Sign in, or renew a sign-in that is about to expire."""

    type: Literal["authenticate"]
    id: OptionalId = None
    token: Annotated[str, Field(max_length=20_000)]


class Ping(_Message):
    """Answered by `__pong__`."""

    type: Literal["__ping__"]
    id: OptionalId = None


class AiMessage(_Message):
    """A message of conversations, or one that subscribes; what refuses it is its `ai:error`."""

    type: Any
    id: Id
    token: Annotated[str | None, Field(max_length=20_000)] = None


class SubscribeMessage(AiMessage):
    """Asks for what happens from now on, in place of what was asked for before by the same form."""


CallerPhone = Annotated[str, Field(pattern=r"^\+[1-9][0-9]{6,14}$")]
"""E.164: the number of the person on whose behalf somebody writes."""


class AiChat(AiMessage):
    """Ask; without `threadId` in a new conversation.

    `agentId`, `callerPhone`: ours; with a new conversation. An agent may read no graph.
    """

    type: Literal["ai:chat"]
    thread_id: Key | None = None
    agent_id: Key | None = None
    caller_phone: CallerPhone | None = None
    graph_key: Annotated[str, Field(max_length=400)]
    message: Annotated[str, Field(min_length=1, max_length=MAX_TEXT)]
    context_type: Literal["graph", "nodeConfig", "htmlClass", "home"] | None = None
    blocks: list[SentBlock] = Field(default_factory=list[SentBlock])
    features: Features


class AiResume(AiMessage):
    """Decide what a conversation waits for, and let it go on. Without `approvalId`: the oldest."""

    type: Literal["ai:resume"]
    thread_id: Key
    approved: bool
    feedback: Annotated[str | None, Field(max_length=MAX_TEXT)] = None
    approval_id: Key | None = None
    edited_action: dict[str, Any] | None = None
    features: Features


class AiAnswer(AiMessage):
    """Ours: answer the question that a thread waits with: an option or a text, or yes or no."""

    type: Literal["ai:answer"]
    thread_id: Key
    response: Annotated[str, Field(max_length=MAX_TEXT)] | bool


class AiInterrupt(AiMessage):
    """Stop a turn. An empty `threadId` means the turn that was asked for under the same `_id`."""

    type: Literal["ai:interrupt"]
    thread_id: Annotated[str, Field(max_length=400)] = ""


class AiEnd(AiMessage):
    """Ours: end a conversation with an agent."""

    type: Literal["ai:end"]
    thread_id: Key


class AiFollow(SubscribeMessage):
    """Ours: follow the turns of a thread that one's other connections run; empty: of none."""

    type: Literal["ai:follow"]
    thread_id: Annotated[str, Field(max_length=400)]


class AiWatch(SubscribeMessage):
    """Ours: receive what waits for a decision, and decisions; also those on one's own proposals
    since a time. With `approvals`, proposals that are new or changed as well. Units:
    milliseconds since 1970.
    """

    type: Literal["ai:watch"]
    approvals: bool = False
    since: Annotated[int | float | None, Field(ge=0)] = None


class AiSessions(SubscribeMessage):
    """Ours: receive the phases of runs of automations and of one's own conversations, now and at
    each change; of one graph, or all.
    """

    type: Literal["ai:sessions"]
    graph_key: Key | None = None


class CallFollow(SubscribeMessage):
    """Ours: follow a telephone call from its beginning on; empty: none."""

    type: Literal["call:follow"]
    call_id: Annotated[str, Field(max_length=400)]


class CallsWatch(SubscribeMessage):
    """Ours: receive the telephone calls that are open, and each call at each change; of one
    agent, or all.
    """

    type: Literal["calls:watch"]
    agent_id: Key | None = None


class SyncMessage(_Message):
    """A message of live editing."""

    # Editors send more than the protocol names (their own user, times): it is not looked at.
    model_config = ConfigDict(extra="ignore")

    type: Any
    id: OptionalId = None


class RegisterUser(SyncMessage):
    """Join the editors of a sheet; the answer holds what was missed since `fromTimestamp`."""

    type: Literal["registerUserOnGraph"]
    name: Annotated[str, Field(max_length=400)]
    sheet_id: Key
    graph_key: Key
    from_timestamp: Annotated[int | float, Field(ge=0)] = 0


class DisconnectUser(SyncMessage):
    """Leave the graph."""

    type: Literal["disconnedUserOnGraph"]
    graph_key: Key


class ApplyInstructions(SyncMessage):
    """Edit nodes and edges: all of the instructions, or none. Others are sent at most
    20 a message.
    """

    type: Literal["applyInstructionToGraph"]
    instructions: Annotated[list[dict[str, Any]], Field(min_length=1, max_length=MAX_INSTRUCTIONS)]


class CreateElements(SyncMessage):
    """Create nodes and edges on a sheet."""

    type: Literal["batchCreateElements"]
    sheet_id: Key
    nodes: Annotated[list[dict[str, Any]], Field(max_length=MAX_ELEMENTS)] = []
    edges: Annotated[list[dict[str, Any]], Field(max_length=MAX_ELEMENTS)] = []


class DeleteElements(SyncMessage):
    """Delete nodes, with all their edges, and edges of a sheet."""

    type: Literal["batchDeleteElements"]
    sheet_id: Key
    node_keys: Annotated[list[Key], Field(max_length=MAX_ELEMENTS)] = []
    edge_keys: Annotated[list[Key], Field(max_length=MAX_ELEMENTS)] = []


class CreateSheet(SyncMessage):
    """Create a sheet; without `key` it gets the next number."""

    type: Literal["createSheet"]
    name: Name
    key: Key | None = None


class RenameSheet(SyncMessage):
    """Rename a sheet."""

    type: Literal["renameSheet"]
    key: Key
    name: Name


class DeleteSheet(SyncMessage):
    """Delete a sheet with all that is on it."""

    type: Literal["deleteSheet"]
    key: Key


class GenerateIds(SyncMessage):
    """Ask for as many new keys as there are `ids`."""

    type: Literal["generateUniqueId"]
    ids: Annotated[list[Any], Field(max_length=MAX_IDS)]


class ForceSave(SyncMessage):
    """Store unsaved edits now."""

    type: Literal["forceSave"]


class ToggleAutoSave(SyncMessage):
    """Say whether edits are stored by themselves."""

    type: Literal["toggleAutoSave"]
    enabled: bool


class UndoEdit(SyncMessage):
    """Ours: take back the sender's latest edit of the graph, also one of before they came,
    or latest undo.
    """

    type: Literal["undoEdit", "redoEdit"]


class Presence(SyncMessage):
    """Ours: where the sender points at, what they selected, and how far they drag it just now;
    never answered, never kept.
    """

    type: Literal["presence"]
    x: Coordinate = None
    y: Coordinate = None
    selection: Annotated[list[Key], Field(max_length=MAX_SHOWN)] = []
    dx: Coordinate = None
    dy: Coordinate = None


class EditNodeType(SyncMessage):
    """What Nodius edits node types with; always refused here."""

    type: Literal[
        "registerUserOnNodeConfig", "disconnedUserOnNodeConfig", "applyInstructionToNodeConfig"
    ]


ClientMessage = Authenticate | Ping | AiMessage | SyncMessage

AI_PREFIXES = ("ai:", "call:", "calls:")
"""A message that begins so is refused by `ai:error`."""

_BASES = (AiMessage, SubscribeMessage, SyncMessage)
FORMS: dict[str, type[_Message]] = {
    name: kind
    for kind in (Authenticate, Ping, *(kind for base in _BASES for kind in base.__subclasses__()))
    for name in get_args(kind.model_fields["type"].annotation)
}
"""The form of each message by its `type`."""


def parse_message(raw: str | bytes) -> tuple[ClientMessage, dict[str, Any]]:
    """Returns a frame as a message, and as it was sent. Raises: InvalidMessage."""
    if isinstance(raw, bytes):
        raise InvalidMessage(reason="a binary frame: send JSON in text frames")
    if len(raw) > MAX_CHARS:
        raise InvalidMessage(
            reason=f"the message is longer than {MAX_CHARS} characters: send less at once"
        )
    try:
        loaded: Any = orjson.loads(raw)
    except (orjson.JSONDecodeError, UnicodeEncodeError) as exc:
        raise InvalidMessage(reason=f"not JSON: {str(exc)[:200]}") from exc
    if not isinstance(loaded, dict):
        raise InvalidMessage(reason="not a JSON object: a message is an object with a `type`")
    return _read(cast(dict[str, Any], loaded))


def _read(document: dict[str, Any]) -> tuple[ClientMessage, dict[str, Any]]:
    type_ = document.get("type")
    id_ = _number(document.get("_id"))
    if not isinstance(type_, str):
        raise InvalidMessage(reason="`type` is missing or no text", id=id_)
    form = FORMS.get(type_)
    if form is None:
        raise InvalidMessage(reason=f"there is no message type {type_[:80]!r}", id=id_)
    try:
        return cast(ClientMessage, form.model_validate(document)), document
    except ValidationError as exc:
        first = exc.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"] if part not in ("int", "float"))[:200]
        raise InvalidMessage(reason=f"`{where}`: {first['msg']}", type=type_, id=id_) from exc


def _number(value: Any) -> float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None
