"""An agent document with every kind of part, changed copies of it, and hostile values to
put into it.
"""

from __future__ import annotations

import copy
import random
from functools import cache
from typing import Any

from graphrag.agents.document import agent_schema

HOSTILE: tuple[Any, ...] = (
    None,
    True,
    -1,
    0,
    5.0,
    2.5,
    10**400,
    1e308,
    float("nan"),
    float("inf"),
    "",
    "x" * 40_000,
    "\ud800",
    "{{",
    "{{secret.X}}",
    "{{ ctx.a | nope }}",
    "{{" * 200,
    "${NAME}",
    "$[?",
    "a.b(",
    "((((" * 100,
    "__import__('os')",
    "http://[::1",
    "https://u:p@h/",
    "\x00",
    [],
    {},
    [[[[[]]]]],
    [1, "a", None, {}],
    {"__proto__": 1},
    {"type": "http"},
    {"": ""},
    {"a\nb": 1},
)


def agent_document() -> dict[str, Any]:
    """Return a document without errors and warnings; each call gives a new one."""
    return copy.deepcopy(_DOCUMENT)


_STATUS: dict[str, Any] = {
    "type": "http",
    "url": "{{base_url}}/orders/{{args.number}}",
    "headers": {"Authorization": "Bearer {{secret.API_KEY}}"},
    "params": {"phone": "{{args.phone | default(caller_phone)}}"},
    "success_if": "$.found == true",
    "store_in_ctx": {"order": "$"},
    "on_success_flags": ["asked"],
    "on_success": {"return": {"status": "$.status", "note": "{{ctx.note}}"}},
    "on_error": {"return": {"found": False, "error": "{{error}}"}},
}
_CANCEL: dict[str, Any] = {
    "type": "http",
    "method": "PATCH",
    "url": "{{base_url}}/orders",
    "body": {"id": "{{pre.target.id}}", "status": "cancelled"},
    "pre_steps": [
        {
            "url": "{{base_url}}/orders",
            "extract": {"target": "$.orders[?(@.number == {{args.number}})]"},
            "fail_if": "target == null",
            "fail_return": {"error": "no such order"},
        },
        {"condition": "pre.target.status not in ['pending']", "fail_return": {"error": "too late"}},
    ],
}
_DOCUMENT: dict[str, Any] = {
    "$schema": "nodius-agent.json",
    "version": "2.0",
    "agent": {"id": "orders", "name": "Orders", "language": "fr", "timezone": "Europe/Paris"},
    "base_url": "https://api.example.com/v1/",
    "openai": {"voice": "sage", "vad": {"threshold": 0.5}, "max_output_tokens": 500},
    "chat": {"temperature": 0.2, "max_rounds": 6, "opening": "Hello"},
    "session": {
        "mode": "inline",
        "instructions": "You answer for {{agent.name}} on {{today}}.",
        "tools": [
            {
                "type": "function",
                "name": "order_status",
                "description": "Looks up an order.",
                "parameters": {
                    "type": "object",
                    "properties": {"number": {"type": "integer"}, "phone": {"type": "string"}},
                },
            },
            {
                "type": "function",
                "name": "cancel_order",
                "parameters": {"type": "object", "properties": {"number": {"type": "integer"}}},
            },
        ],
    },
    "graphs": ["nba"],
    "graph_tools": ["search_nodes"],
    "permissions": {"propose": True, "role": "editor"},
    "channels": ["chat", "voice"],
    "pre_call_checks": [
        {
            "name": "blocked",
            "url": "{{base_url}}/blocked",
            "params": {"phone": "{{caller_phone}}"},
            "block_if": "$.blocked == true",
            "on_block": "message",
            "message": "Not now, {{caller_phone}}.",
        }
    ],
    "greeting": {
        "known_customer": "Greet {{ctx.name}}.",
        "unknown_customer": "Greet them.",
        "condition_field": "ctx.name",
    },
    "lifecycle": {
        "on_start": {
            "url": "{{base_url}}/calls",
            "body": {"at": "{{now_iso}}"},
            "store_in_ctx": {"call_id": "$.id", "name": "$.customer.name", "note": "$.note"},
        },
        "on_no_action": {
            "url": "{{base_url}}/messages",
            "body": {"text": "{{transcript_summary}}"},
            "condition": "not ctx.asked and ctx.had_conversation",
        },
        "on_end": {
            "method": "PATCH",
            "url": "{{base_url}}/calls",
            "body": {"outcome": "{{outcome}}"},
        },
        "outcome_rules": [
            {"flag": "asked", "outcome": "asked", "priority": 1},
            {"flag": None, "outcome": "nothing"},
        ],
    },
    "tools": {
        "order_status": _STATUS,
        "cancel_order": _CANCEL,
        "forward": {"type": "builtin", "action": "transfer"},
        "end_call": {"type": "builtin", "action": "hangup"},
    },
    "voice": {
        "barge_in": {"mode": "confirmed"},
        "destinations": {"sales": {"number": "+33123456789"}},
    },
    "secrets": [{"name": "API_KEY", "hosts": ["api.example.com"]}],
    "limits": {"max_tool_calls": 30},
}


def fetched_document() -> dict[str, Any]:
    """Return one whose session is fetched."""
    session = {
        "mode": "config_url",
        "url": "{{base_url}}/session",
        "params": {"phone": "{{caller_phone}}"},
        "response_mapping": {
            "instructions": "$.prompt",
            "tools": "$.tools",
            "ctx_init": {"name": "$.name"},
        },
        "fallback": {"instructions": "Take a message."},
    }
    return {**agent_document(), "session": session}


def mutated(document: dict[str, Any], chance: random.Random) -> dict[str, Any]:
    """Return a copy with one to three members removed, replaced, renamed, added or set
    to an example.
    """
    copied = copy.deepcopy(document)
    for _ in range(chance.randint(1, 3)):
        holder = chance.choice(_holders(copied))
        name = chance.choice(list(holder) if isinstance(holder, dict) else [*range(len(holder))])
        kind = chance.random()
        if kind < 0.2:
            del holder[name]
        elif kind < 0.3 and isinstance(holder, dict):
            holder[f"{name}x"] = holder.pop(name)
        elif kind < 0.6:
            holder[name] = copy.deepcopy(chance.choice(HOSTILE))
        elif kind < 0.7 and isinstance(holder, dict):
            holder[chance.choice(("extra", "type", "__proto__", "url", "http"))] = chance.choice(
                HOSTILE
            )
        else:
            holder[name] = copy.deepcopy(chance.choice(_examples()))
    return copied


def _holders(value: Any) -> list[Any]:
    """Return all objects and lists of a document that are not empty."""
    inner = (
        list(value.values())
        if isinstance(value, dict)
        else value
        if isinstance(value, list)
        else []
    )
    own = [value] if isinstance(value, dict | list) and value else []
    return own + [holder for part in inner for holder in _holders(part)]


@cache
def _examples() -> list[Any]:
    shapes = [agent_schema(), *agent_schema()["$defs"].values()]
    return [
        example
        for shape in shapes
        for field in shape.get("properties", {}).values()
        for example in field["examples"]
    ]
