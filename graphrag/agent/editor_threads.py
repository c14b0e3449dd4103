"""Reads conversations that the Nodius editor's own assistant stored, in this program's form.

They have no `schemaVersion`. Their instructions and retrieved contexts (system messages, the latter beginning
with `[Contexte RAG pour cette question]`) are dropped: the next message gets this program's. A pending
interrupt becomes a turn that waits: for the person's grant of more rounds, or for the decision of the call in
`toolCall`, which is proposed here when the thread is resumed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

TOOL_LIMIT = "tool_limit"


def take_over(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return a stored thread of that program in this program's form; unknown fields stay."""
    raw = data.get("conversationHistory")
    history = [
        item for item in (cast(list[Any], raw) if isinstance(raw, list) else []) if not _is_system(item)
    ]
    pending = _mapping(data.get("pendingInterrupt"))
    status = ""
    if pending.get("type") == TOOL_LIMIT:
        status = "limit"
    elif call := _tool_call(pending):
        status = "waiting"
        if not any(_calls(item, call["id"]) for item in history):
            history.append({"role": "assistant", "content": "", "tool_calls": [call]})
    turn = {"turn": {"number": 1, "status": status}} if status else {}
    return {**data, "conversationHistory": history, **turn}


def _is_system(item: Any) -> bool:
    return _mapping(item).get("role") in ("system", "developer")


def _tool_call(pending: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the call that waits for a decision, in the form of OpenAI's messages."""
    call = _mapping(pending.get("toolCall"))
    name, arguments = call.get("name"), call.get("args", call.get("arguments"))
    if not isinstance(name, str) or not name:
        return None
    text = arguments if isinstance(arguments, str) else json.dumps(arguments or {}, ensure_ascii=False)
    identity = call.get("id")
    return {
        "id": identity if isinstance(identity, str) and identity else "pending",
        "type": "function",
        "function": {"name": name, "arguments": text},
    }


def _calls(item: Any, call_id: str) -> bool:
    calls = _mapping(item).get("tool_calls")
    return isinstance(calls, list) and any(_mapping(c).get("id") == call_id for c in cast(list[Any], calls))


def _mapping(value: Any) -> Mapping[str, Any]:
    return cast(Mapping[str, Any], value) if isinstance(value, Mapping) else {}
