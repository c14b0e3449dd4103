"""The table of all messages of the WebSocket, and their description as JSON Schema.

Tests check each message that a server of theirs sends against this table.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final, get_args

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from server import ws_chat_forms, ws_live_forms
from server.ws_live_forms import EditorsAnswer
from server.ws_messages import FORMS

SENT: Final[tuple[type[BaseModel], ...]] = tuple(
    form
    for module in (ws_chat_forms, ws_live_forms)
    for form in vars(module).values()
    if isinstance(form, type) and issubclass(form, BaseModel) and "type" in form.model_fields
)
"""Every message that the server sends. One with `_response` answers an editor's message of its type."""


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
    _, made = models_json_schema([(form, "validation") for form in forms], ref_template="#/$defs/{model}")
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
