"""Checks each message of the WebSocket, of any server and client of the tests, against the
table of messages.

A type or field that is not in the table, or of another type, fails the test in which it was sent.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, lru_cache
from typing import Any

import orjson
import pytest
from pydantic import ValidationError
from starlette.websockets import WebSocket

from server.ws_messages import FORMS, InvalidMessage, parse_message
from tests.support.ws_catalogue import SENT_FORMS, is_answer

FOUND: list[str] = []
"""What was wrong in the messages of the test that runs."""
EXTRAS: set[str] = set()
"""Fields that clients of the tests sent beside those of the table: they come back
with the answer.
"""


def look_at_sent(text: str) -> None:
    """Note what is wrong in a message that a server sent."""
    if (fault := _fault(text)) is not None:
        FOUND.append(fault)


def look_at_asked(frame: str | bytes) -> None:
    """Remember the fields beside those of the table, of a message that a server will accept."""
    try:
        message, document = parse_message(frame)
    except InvalidMessage:
        return
    fields = type(message).model_fields
    EXTRAS.update(document.keys() - {field.alias or name for name, field in fields.items()})


@lru_cache(maxsize=2_000)  # what many clients are sent is looked at once
def _fault(text: str) -> str | None:
    message: dict[str, Any] = orjson.loads(text)
    name = message.get("type")
    is_reply = "_response" in message
    form = SENT_FORMS.get((str(name), is_reply))
    if form is None:
        return f"the table has no {'answer' if is_reply else 'message'} {name!r}: {text[:200]}"
    try:
        form.model_validate_json(text)
    except ValidationError as exc:
        return f"{name} is not as the table says: {exc}"
    if is_answer(form) and (unknown := message.keys() - _echoed(str(name)) - EXTRAS):
        return (
            f"the answer {name} has fields that neither the table nor the request knows: {unknown}"
        )
    return None


@cache
def _echoed(name: str) -> set[str]:
    """Return the fields of the answer to a message, and of the message."""
    forms = (FORMS[name], SENT_FORMS[name, True])
    return {field.alias or own for form in forms for own, field in form.model_fields.items()}


@pytest.fixture(scope="session", autouse=True)
def messages_looked_at() -> Iterator[None]:
    """Look at what the servers in this process send."""
    send_text = WebSocket.send_text

    async def looked(self: WebSocket, data: str) -> None:
        if self.url.path == "/ws":
            look_at_sent(data)
        await send_text(self, data)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(WebSocket, "send_text", looked)
        yield


@pytest.fixture(autouse=True)
def messages_as_documented(messages_looked_at: None) -> Iterator[None]:
    """Fail a test in which a message was sent that the documents do not know."""
    yield
    found = "\n".join(dict.fromkeys(FOUND))
    FOUND.clear()
    assert not found, f"the documents of the WebSocket are wrong:\n{found}"
