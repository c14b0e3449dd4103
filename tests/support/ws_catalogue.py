"""The table of all messages of the WebSocket, and their description as JSON Schema, which
the server sends.

Tests check each message that a server of theirs sends against this table. Those of live
editing stand here: answers hold the request as it was sent, and what others did is sent as
they asked for it.
"""

from __future__ import annotations

from functools import cache
from typing import Annotated, Any, Final, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, create_model
from pydantic.alias_generators import to_camel
from pydantic.json_schema import models_json_schema

from server.ws_messages import (
    FORMS,
    ApplyInstructions,
    CreateElements,
    CreateSheet,
    DeleteElements,
    DeleteSheet,
    RenameSheet,
    SyncMessage,
)
from tests.support import ws_chat_forms
from tests.support.ws_chat_forms import ABSENT, Id, SentMessage, Time


class AnswerStatus(SentMessage):
    """How it went; where it did not, `message` says why to people, and `code` (of an
    error) to programs.
    """

    status: bool
    message: str = ABSENT
    code: str = ABSENT


class EditorsAnswer(BaseModel):
    """The request as it was sent, also what is not looked at, with how it went and what
    came of it.
    """

    model_config = ConfigDict(
        extra="allow", strict=True, alias_generator=to_camel, allow_inf_nan=False
    )

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
    """Answers `registerUserOnGraph`: where the graph stands, and what was
    missed since `fromTimestamp`.

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


class OthersEdit(SentMessage):
    graph_key: str
    user_id: str
    timestamp: Time


class GraphRenamed(OthersEdit):
    """Somebody renamed the graph."""

    type: Literal["renameGraph"]
    name: str


class SaveStatusBroadcast(SentMessage):
    """Where the graph stands; `error` says why the last save failed, `nextAttempt` when it
    is tried again.
    """

    type: Literal["saveStatus"]
    graph_key: str
    revision: int
    last_save_time: Time
    has_unsaved_changes: bool
    auto_save_enabled: bool
    error: str = ABSENT
    next_attempt: Time | None = ABSENT


class PresenceBroadcast(SentMessage):
    """Where somebody on the sheet points at (null: nowhere), what they selected, and how far they
    drag it just now (absent: not at all); `gone`: they left.

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
    dx: int | float = ABSENT
    dy: int | float = ABSENT
    gone: Literal[True] = ABSENT


_EDITS = (ApplyInstructions, CreateElements, DeleteElements, CreateSheet, RenameSheet, DeleteSheet)


def _broadcast(form: type[SyncMessage]) -> type[BaseModel]:
    """Return the form in which the other editors are sent an edit: as it was asked for, with
    who did it.
    """
    fields: Any = {
        name: (field.annotation, ...) for name, field in form.model_fields.items() if name != "id"
    }
    about = f"Somebody's edit, as it was carried out. {form.__doc__}"
    return create_model(f"Others{form.__name__}", __base__=OthersEdit, __doc__=about, **fields)


SENT: Final[tuple[type[BaseModel], ...]] = (
    *(
        form
        for form in (*vars(ws_chat_forms).values(), *globals().values())
        if isinstance(form, type)
        and issubclass(form, SentMessage | EditorsAnswer)
        and "type" in form.model_fields
    ),
    *(_broadcast(form) for form in _EDITS),
)
"""Every message that the server sends. One with `_response` answers an editor's
message of its type.
"""


def types_of(form: type[BaseModel]) -> tuple[str, ...]:
    """Return the `type`s of the messages of a form."""
    return get_args(form.model_fields["type"].annotation)


def is_answer(form: type[BaseModel]) -> bool:
    """Return whether messages of a form have `_response`."""
    return issubclass(form, EditorsAnswer)


SENT_FORMS: Final = {(name, is_answer(form)): form for form in SENT for name in types_of(form)}
"""The form of a message of the server, by its `type` and whether it has `_response`."""


@cache
def ws_description() -> dict[str, Any]:
    """Return the messages of both directions as one JSON Schema document. For reading."""
    forms = [*dict.fromkeys(FORMS.values()), *SENT]
    _, made = models_json_schema(
        [(form, "validation") for form in forms], ref_template="#/$defs/{model}"
    )
    accepted = dict.fromkeys(form.__name__ for form in FORMS.values())
    made["$defs"] |= {
        "ClientMessage": _one_of("From the client", accepted),
        "ServerMessage": _one_of("From the server", dict.fromkeys(form.__name__ for form in SENT)),
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Messages of the WebSocket",
        "description": "Each is a JSON object in a text frame at /ws; `_id` is the caller's number.",
        "anyOf": [{"$ref": "#/$defs/ClientMessage"}, {"$ref": "#/$defs/ServerMessage"}],
        **made,
    }


def _one_of(title: str, names: dict[str, None]) -> dict[str, Any]:
    return {"title": title, "oneOf": [{"$ref": f"#/$defs/{name}"} for name in names]}
