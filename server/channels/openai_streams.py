"""Streamed answers of the OpenAI API: chunks of a chat completion, events of a response."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import count
from typing import Any

from server.channels.openai_answers import (
    ResponsesForm,
    chunk,
    message_item,
    output_text,
    response,
)
from server.channels.turn_documents import Document


class ChatChunks:
    """The chunks of a chat completion. `head`: id, created, model."""

    def __init__(self, head: Mapping[str, Any]) -> None:
        self._head = head

    def begin(self) -> Document:
        """Returns the chunk before the first piece."""
        return chunk(self._head, {"role": "assistant", "content": ""})

    def piece(self, text: str) -> Document:
        """Returns the chunk of a piece of text."""
        return chunk(self._head, {"content": text})

    def end(self, used: Mapping[str, int] | None) -> Iterator[Document]:
        """Yields the last chunks; the tokens have one of their own."""
        yield chunk(self._head, {}, ends=True)
        if used is not None:
            yield chunk(self._head, None, used=used)


class ResponseEvents:
    """The numbered events of a response. Units: `created` in seconds since 1970."""

    def __init__(self, form: ResponsesForm, created: int) -> None:
        self._form = form
        self._created = created
        self._numbers = count()

    def begin(self, response_id: str) -> Iterator[Document]:
        """Yields the events before the first piece."""
        begun = response(self._form, response_id, self._created, None, None)
        yield self._event("response.created", response=begun)
        item = message_item(response_id, "", "in_progress")
        yield self._event("response.output_item.added", output_index=0, item=item)
        place = _place(response_id)
        yield self._event("response.content_part.added", **place, part=output_text(""))

    def piece(self, response_id: str, text: str) -> Document:
        """Returns the event of a piece of text."""
        place = _place(response_id)
        return self._event("response.output_text.delta", **place, delta=text, logprobs=[])

    def end(self, response_id: str, text: str, used: Mapping[str, int]) -> Iterator[Document]:
        """Yields the events after the last piece. `text`: the whole answer."""
        place = _place(response_id)
        yield self._event("response.output_text.done", **place, text=text, logprobs=[])
        item = message_item(response_id, text, "completed")
        yield self._event("response.content_part.done", **place, part=item["content"][0])
        yield self._event("response.output_item.done", output_index=0, item=item)
        whole = response(self._form, response_id, self._created, text, used)
        yield self._event("response.completed", response=whole)

    def failed(self, code: str, message: str) -> Document:
        """Returns the event of an error."""
        return self._event("error", code=code, message=message, param=None)

    def _event(self, kind: str, **fields: Any) -> Document:
        return {"type": kind, "sequence_number": next(self._numbers), **fields}


def _place(response_id: str) -> Document:
    """Returns the place of the text in a response, which has one message with one part."""
    item_id = message_item(response_id, "", "")["id"]
    return {"item_id": item_id, "output_index": 0, "content_index": 0}
