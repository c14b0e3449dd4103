"""What the Nodius editor's own server stores, recorded from it: the only editor documents
of the tests.

Conversations that wait at the limit of rounds, or with calls that remain, are made of the recorded
ones: the fields are those of Nodius, `packages/server/src/ai/aiAgent.ts`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.support.arango import ArangoServer

Documents = dict[str, dict[str, dict[str, Any]]]
"""Documents by collection and key."""

FILE = Path(__file__).parents[1] / "data/editor/database.json"
GRAPH = "2c68a7e20b1bc593435e8636f4e720166cdf8147145c3d7976b51eb4b50a925a"
WORKSPACE = USER = "10036"
VECTOR_LENGTH = 1_536
PLAIN = "197c288748f9387c1d23f4e8ebe6027ff2e727d58af1ebe3ec7f8e0abe694d64"
WAITING = "1571b0a5134c8b3367c2a56e5fd43f463d3bcc9e74dac3a2e5d5439b6a04d896"
READING = "75ce570bdeb98dc5da79eaeda4f8cbebae49ae027abb765767a2b2fe8a9afa7a"
"""Keys of the threads: a plain answer, one that waits for a decision, one with a tool call."""


def editor_documents() -> Documents:
    """Returns the recorded documents, each time anew."""
    return json.loads(FILE.read_text(encoding="utf-8"))


def editor_thread(key: str) -> dict[str, Any]:
    """Returns a recorded thread without the fields that the database gave it."""
    document = editor_documents()["nodius_ai_threads"][key]
    return {name: value for name, value in document.items() if name not in ("_key", "_id", "_rev")}


def a_call(identity: str, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a tool call as the editor stores it."""
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {"index": 0, "id": identity, "type": "function", "function": function}


def waiting_thread(
    name: str, arguments: Mapping[str, Any], *more: dict[str, Any], listed: bool = True
) -> dict[str, Any]:
    """Returns the thread that waits for a decision, about this call, with `more` calls that remain.

    An answer that is not streamed lists those in `remainingToolCalls`, a streamed one does not.
    """
    thread = editor_thread(WAITING)
    pending = thread["pendingInterrupt"]
    asking = thread["conversationHistory"][-1]
    asking["tool_calls"] = [a_call(pending["toolCallId"], name, arguments), *more]
    pending |= {
        "toolName": name,
        "args": dict(arguments),
        "remainingToolCalls": list(more) if listed else [],
    }
    return thread


def thread_at_limit(*remaining: dict[str, Any]) -> dict[str, Any]:
    """Returns the thread with a tool call as it waits when the rounds of tools are used up."""
    thread = editor_thread(READING)
    context = editor_thread(WAITING)["pendingInterrupt"]["context"]
    thread["conversationHistory"] = thread["conversationHistory"][
        :-1
    ]  # the answer came after the limit
    thread["pendingInterrupt"] = {
        "kind": "tool_limit",
        "toolCallId": "",
        "toolName": "",
        "args": {},
        "context": context,
        "toolCallLog": [],
        "remainingToolCalls": list(remaining),
    }
    return thread


def store_editor_database(
    server: ArangoServer, name: str, threads: Sequence[tuple[str, dict[str, Any]]] = ()
) -> None:
    """Stores the recorded documents in a database that has none of them, as the
    editor's driver does.

    `threads` are stored in place of the recorded ones of those keys.
    """
    documents = editor_documents()
    documents["nodius_ai_threads"] |= {key: {"_key": key, **thread} for key, thread in threads}
    place = f"/_db/{name}"
    there = {one["name"] for one in server.call("GET", f"{place}/_api/collection")["result"]}
    for collection, stored in documents.items():
        if collection not in there:
            kind = 3 if collection == "nodius_edges" else 2
            server.call("POST", f"{place}/_api/collection", {"name": collection, "type": kind})
        server.call("POST", f"{place}/_api/document/{collection}", list(stored.values()))
