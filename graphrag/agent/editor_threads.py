"""Reads conversations that the Nodius editor's own server stored, in this program's form.

The editor keeps in `pendingInterrupt` what a conversation waits for: `{kind: "hitl", toolCallId,
toolName, args, remainingToolCalls, …}` for a proposal, and `{kind: "tool_limit", …}` with the same
fields when the rounds of tools are used up. The model's last message contains the calls, too.

Source: Nodius, `packages/server/src/ai/aiAgent.ts` and `tools/writeTools.ts`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, cast

Call = dict[str, Any]
"""A tool call in the form of OpenAI's messages."""

ROUNDS_USED: Final = 5  # rounds of tools after which the editor's assistant asks for more

_STRATEGIES: Final = {"horizontal": "left_to_right", "vertical": "top_down", "tree": "top_down"}
_STATUS: Final = {"hitl": "waiting", "tool_limit": "limit"}


def _mapping(raw: Any) -> dict[str, Any]:
    return dict(cast(Mapping[str, Any], raw)) if isinstance(raw, Mapping) else {}


def _list(raw: Any) -> list[Any]:
    return cast(list[Any], raw) if isinstance(raw, list) else []


def take_over(data: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a thread of the editor in this program's form; unknown fields stay.

    Its instructions and contexts are left out, as they are written again.
    """
    listed = map(_mapping, _list(data.get("conversationHistory")))
    history = [message for message in listed if message.get("role") not in ("system", "developer")]
    pending = _mapping(data.get("pendingInterrupt"))
    status = _STATUS.get(str(pending.get("kind")))
    if status is None:
        return {**data, "conversationHistory": history}
    turn = {"number": 1, "status": status, "roundsUsed": ROUNDS_USED if status == "limit" else 0}
    return {
        **data,
        "conversationHistory": _with_pending(history, _pending_calls(pending)),
        "turn": turn,
    }


def _pending_calls(pending: Mapping[str, Any]) -> list[Call]:
    """Returns the calls that `pendingInterrupt` names: first the one to decide, then the others."""
    remaining = [
        call for call in map(_mapping, _list(pending.get("remainingToolCalls"))) if _name_of(call)
    ]
    name = pending.get("toolName")
    identity = pending.get("toolCallId")
    if pending.get("kind") != "hitl" or not isinstance(name, str) or not name:
        return remaining
    # What a person was shown is `args`: the editor may have changed them after the model's call.
    identity = identity if isinstance(identity, str) and identity else "pending"
    return [_call(identity, name, _mapping(pending.get("args"))), *remaining]


def _call(identity: str, name: str, arguments: Mapping[str, Any]) -> Call:
    text = json.dumps(arguments, ensure_ascii=False)
    return {"id": identity, "type": "function", "function": {"name": name, "arguments": text}}


def _name_of(call: Mapping[str, Any]) -> str:
    name = _mapping(call.get("function")).get("name")
    return name if isinstance(name, str) else ""


def _with_pending(
    history: Sequence[dict[str, Any]], pending: Sequence[Call]
) -> list[dict[str, Any]]:
    """Returns the history in which exactly the pending calls are unanswered.

    Those are the ones that `pending` names and the other calls of the model's last message, which
    the editor's streaming answers do not list. Unanswered calls of earlier messages were given up.
    """
    answered = {message.get("tool_call_id") for message in history if message.get("role") == "tool"}
    asking = [place for place, message in enumerate(history) if _list(message.get("tool_calls"))]
    kept: list[dict[str, Any]] = []
    left = {str(call.get("id")): call for call in pending}
    for place, message in enumerate(history):
        calls = [_mapping(call) for call in _list(message.get("tool_calls"))]
        is_last = bool(asking) and place == asking[-1]
        calls = [call for call in calls if is_last or call.get("id") in answered]
        if is_last:
            calls = [left.pop(str(call.get("id")), call) for call in calls]
            calls = [call if call.get("id") in answered else _in_our_terms(call) for call in calls]
        if calls:
            kept.append({**message, "tool_calls": calls})
        elif not _list(message.get("tool_calls")) or message.get("content"):
            kept.append({name: value for name, value in message.items() if name != "tool_calls"})
    lacking = [_in_our_terms(call) for call in left.values() if call.get("id") not in answered]
    return [*kept, {"role": "assistant", "content": "", "tool_calls": lacking}] if lacking else kept


def _in_our_terms(call: Call) -> Call:
    """Returns a call with the arguments of this program's tool of that name."""
    name = _name_of(call)
    try:
        arguments = json.loads(str(_mapping(call.get("function")).get("arguments")))
    except ValueError:
        return call  # the tool says what is wrong
    translate = _TRANSLATED.get(name)
    if translate is None or not isinstance(arguments, dict):
        return call
    return _call(str(call.get("id")), name, translate(_mapping(arguments)))


def _update_node(arguments: dict[str, Any]) -> dict[str, Any]:
    """Returns the arguments of an update. Name, description and HTML are data of the node."""
    if "updates" not in arguments:
        return arguments
    updates = _mapping(arguments.pop("updates"))
    changes = {name: value for name, value in updates.items() if name not in _OF_DATA}
    changes |= {f"data.{name}": updates[name] for name in _OF_DATA if name in updates}
    return {**arguments, "changes": changes}


_OF_DATA: Final = ("name", "description", "html")


def _create_edge(arguments: dict[str, Any]) -> dict[str, Any]:
    """Returns the arguments of a new edge, whose sheet is that of its nodes."""
    arguments.pop("sheet", None)
    return arguments


def _configure_node_type(arguments: dict[str, Any]) -> dict[str, Any]:
    if "processPatches" in arguments:
        arguments["patches"] = arguments.pop("processPatches")
    arguments.setdefault("typeKey", arguments.get("displayName"))
    return arguments


def _reorganize_layout(arguments: dict[str, Any]) -> dict[str, Any]:
    strategy = _STRATEGIES.get(str(arguments.pop("strategy", None)))
    return arguments if strategy is None else {**arguments, "strategy": strategy}


def _batch(arguments: dict[str, Any]) -> dict[str, Any]:
    """Returns the arguments of a batch. The editor writes the fields of an action beside its
    `type`.
    """
    actions = [_batched(_mapping(action)) for action in _list(arguments.get("actions"))]
    return {**arguments, "actions": actions}


def _batched(action: dict[str, Any]) -> dict[str, Any]:
    if "payload" in action:
        return action
    kind = action.pop("type", None)
    translate = _TRANSLATED.get(f"propose_{kind}", dict)
    return {"type": kind, "payload": translate(action)}


_TRANSLATED: Final[Mapping[str, Callable[[dict[str, Any]], dict[str, Any]]]] = {
    "propose_update_node": _update_node,
    "propose_create_edge": _create_edge,
    "propose_configure_node_type": _configure_node_type,
    "propose_reorganize_layout": _reorganize_layout,
    "propose_batch": _batch,
}
