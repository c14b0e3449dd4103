"""What the server sends to editors of a live graph: the form of each answer, and of what others did."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from server.ws_chat_forms import ABSENT, Id, SentMessage, Time


class AnswerStatus(SentMessage):
    """How it went; where it did not, `message` says why to people, and `code` (of an error) to programs."""

    status: bool
    message: str = ABSENT
    code: str = ABSENT


class EditorsAnswer(BaseModel):
    """The request as it was sent, also what is not looked at, with how it went and what came of it."""

    model_config = ConfigDict(extra="allow", strict=True, alias_generator=to_camel, allow_inf_nan=False)

    id: Id = ABSENT
    response: Annotated[AnswerStatus, Field(alias="_response")]


class _Status(EditorsAnswer):
    revision: int = ABSENT
    last_save_time: Time = ABSENT
    has_unsaved_changes: bool = ABSENT
    auto_save_enabled: bool = ABSENT
    error: str = ABSENT
    next_attempt: Time | None = ABSENT


class Registered(_Status):
    """Answers `registerUserOnGraph`: where the graph stands, and what was missed since `fromTimestamp`.

    `missingComplete` false: load the graph instead. `timestamp`: up to when the client knows all.
    """

    type: Literal["registerUserOnGraph"]
    missing_messages: list[dict[str, Any]] = ABSENT
    missing_complete: bool = ABSENT
    timestamp: Time = ABSENT


class SavingAnswer(_Status):
    """Answers `forceSave` and `toggleAutoSave`: where the graph stands."""

    type: Literal["forceSave", "toggleAutoSave"]


class EditAnswer(EditorsAnswer):
    """Answers an edit, with what was really done: edges of deleted nodes, names that follow."""

    type: Literal[
        "applyInstructionToGraph", "batchCreateElements", "batchDeleteElements",
        "createSheet", "renameSheet", "deleteSheet",
    ]  # fmt: skip
    graph_key: str = ABSENT
    user_id: str = ABSENT
    timestamp: Time = ABSENT


class NewIds(EditorsAnswer):
    """Answers `generateUniqueId`: as many new keys as were asked for."""

    type: Literal["generateUniqueId"]
    ids: list[Any] = ABSENT


class UndoneEdit(SentMessage):
    """The edit that takes one back. `steps`: what it did, as `GET …/history` lists it."""

    id: str
    takes_back: str
    steps: list[dict[str, Any]]


class UndoAnswer(EditorsAnswer):
    """Answers `undoEdit` and `redoEdit`. `edit` null: there is nothing to take back."""

    type: Literal["undoEdit", "redoEdit"]
    edit: UndoneEdit | None = ABSENT


class PlainAnswer(EditorsAnswer):
    """Answers the others of an editor's messages."""

    type: Literal[
        "disconnedUserOnGraph", "presence",
        "registerUserOnNodeConfig", "disconnedUserOnNodeConfig", "applyInstructionToNodeConfig",
    ]  # fmt: skip


class _OthersEdit(SentMessage):
    graph_key: str
    user_id: str
    timestamp: Time


class InstructionsBroadcast(_OthersEdit):
    """Somebody's edit of nodes and edges, at most 20 instructions a message."""

    type: Literal["applyInstructionToGraph"]
    instructions: list[dict[str, Any]]


class ElementsCreated(_OthersEdit):
    """Somebody created nodes and edges on a sheet."""

    type: Literal["batchCreateElements"]
    sheet_id: str
    nodes: list[dict[str, Any]]
    edges: list[dict[str, Any]]


class ElementsDeleted(_OthersEdit):
    """Somebody deleted nodes and edges of a sheet."""

    type: Literal["batchDeleteElements"]
    sheet_id: str
    node_keys: list[str]
    edge_keys: list[str]


class SheetNamed(_OthersEdit):
    """Somebody created or renamed a sheet."""

    type: Literal["createSheet", "renameSheet"]
    key: str
    name: str


class SheetDeleted(_OthersEdit):
    """Somebody deleted a sheet, with all that was on it."""

    type: Literal["deleteSheet"]
    key: str


class GraphRenamed(_OthersEdit):
    """Somebody renamed the graph."""

    type: Literal["renameGraph"]
    name: str


class SaveStatusBroadcast(SentMessage):
    """Where the graph stands; `error` says why the last save failed, `nextAttempt` when it is tried again."""

    type: Literal["saveStatus"]
    graph_key: str
    revision: int
    last_save_time: Time
    has_unsaved_changes: bool
    auto_save_enabled: bool
    error: str = ABSENT
    next_attempt: Time | None = ABSENT


class PresenceBroadcast(SentMessage):
    """Where somebody on the sheet points at (null: nowhere) and what they selected; `gone`: they left.

    `member`: which connection.
    """

    type: Literal["presence"]
    graph_key: str
    sheet_id: str
    member: str
    user_id: str
    x: int | float | None = ABSENT
    y: int | float | None = ABSENT
    selection: list[str] = ABSENT
    gone: Literal[True] = ABSENT
