"""Probes: requests that name things of another workspace, and the same ones for things
that are nowhere.

The answer to a probe must equal the answer to its twin, whichever keys the two named.
"""

import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

Keys = dict[str, str]
Twist = Callable[[str], str]

TWISTS: tuple[Twist, ...] = (
    *(lambda key: key,) * 8,
    str.upper,
    str.title,
    lambda key: f"{key} ",
    lambda key: f" {key}",
    lambda key: f"default/{key}",
    lambda key: f"default:{key}",
    lambda key: f"../default/{key}",
    lambda key: f"{key}%",
    lambda key: f"{key}\u200b",
    lambda key: f"{key}' OR '1'='1",
    lambda key: f'{key}" || true || "',
    lambda key: f"{key}/**/",
    lambda key: f"{key}-root",
    lambda key: f"nodius_graphs/{key}",
    lambda key: key.replace("a", "\uff41"),
)
"""Spellings of a key: mostly its own."""

WORKSPACES = (
    None,
    None,
    None,
    "default",
    "DEFAULT",
    "elsewhere",
    "root",
    "*",
    "default,elsewhere",
    "%",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rest:
    """An HTTP request; `template` and `query` are filled with keys."""

    method: str
    template: str
    body: str | None = None
    query: str | None = None
    workspace: str | None = None

    def filled(self, keys: Keys, twist: Twist) -> dict[str, Any]:
        """Return what an HTTP client sends."""

        def part(match: re.Match[str]) -> str:
            return quote(twist(keys[match[1]]), safe="")

        params = {} if self.query is None else {"graphKey": twist(keys[self.query])}
        if self.workspace is not None:
            params["workspace"] = self.workspace
        return {
            "method": self.method,
            "url": re.sub(r"\{(\w+)\}", part, self.template),
            "params": params,
            "json": None if self.body is None else bodies(keys, twist)[self.body],
        }


def bodies(keys: Keys, twist: Twist) -> dict[str, Any]:
    """Bodies of requests that name keys, by path and variant."""
    graph = twist(keys["graph_key"])
    thread = twist(keys["thread_id"])
    approval = twist(keys["approval_id"])
    edited = {
        "type": "update_node",
        "payload": {"nodeKey": twist(keys["node_key"]), "changes": {"posX": 1}},
    }
    blocks = [
        {"id": "b1", "type": "USE", "target": {"kind": "node", "key": twist(keys["node_key"])}}
    ]
    hello = [{"role": "user", "content": "hello"}]
    said = {"threadId": thread, "runId": "run", "messages": [{"id": "m", **hello[0]}]}
    return {
        "/api/agui/{graph_key}": said,
        "/api/agui/{graph_key} resume": {
            **said,
            "resume": [{"interruptId": approval, "status": "resolved", "payload": True}],
        },
        "/api/enrichments/preview": {"graphKey": graph, "blocks": blocks},
        "/api/ai/chat blocks": {"graphKey": graph, "message": "hello", "blocks": blocks},
        "/api/ai/chat": {"graphKey": graph, "message": "hello"},
        "/api/ai/chat thread": {"graphKey": graph, "message": "hello", "threadId": thread},
        "/api/ai/resume": {"threadId": thread, "approved": True},
        "/api/ai/resume approval": {"threadId": thread, "approved": False, "approvalId": approval},
        "/api/ai/threads": {"graphKey": graph},
        "/api/approvals/{approval_id}/decision": {"verdict": "approve"},
        "/api/approvals/{approval_id}/decision no": {"verdict": "reject", "feedback": "no"},
        "/api/approvals/{approval_id}/decision edit": {
            "verdict": "approve",
            "editedAction": edited,
        },
        "/api/graphs/{graph_key}/undo": {"approvalId": approval},
        "/api/graphs/{graph_key}/undo last": {},
        "/api/graphs/{graph_key}/revisions/{revision}/restore": {"propose": True},
        "/api/automations": {"graphKey": graph, "name": "Mine", "message": "hello"},
        "/api/automations thread": {"graphKey": graph, "name": "Mine too", "fromThreadId": thread},
        "/api/automations/{automation_id}": {"version": 1, "name": "Mine"},
        "/api/sessions/{session_id}/answer": {"approved": True},
        "/api/sessions/{session_id}/answer no": {"approved": False, "feedback": "no"},
        "/api/sessions/{session_id}/confirm": {"end": True},
        "/api/settings/test": {"provider": "openai"},
        "/api/automation-rules/pause": {"reason": "mine"},
        "/api/automation-rules/budget": {"dayTokens": 1},
        "/api/today/seen": {"time": 1},
        "/api/administration/settings": {"changes": {"provider": "offline"}},
        "/api/schedules/preview": {"cron": "0 2 * * *", "timezone": "UTC"},
        "/api/agents/{agent_id}/rollback": {"version": 1},
        "/api/agents/{agent_id}/tools/{name}/try": {},
        "/api/agent-trials": {"document": {"graphs": [graph]}, "tool": "look"},
        "/v1/chat/completions": {"model": f"graph:{graph}", "messages": hello},
        "/v1/responses": {
            "model": f"graph:{graph}",
            "input": "hello",
            "previous_response_id": f"resp_{thread}",
        },
        "/api/ai/thread/{thread_id}": {"title": "Mine"},
        "/api/ai/thread/{thread_id}/answer": {"response": True},
        "/api/approvals/{approval_id}/comments": {"text": "Seen."},
        "/api/approvals/{approval_id}/code": {"editedAction": edited},
        "/api/approvals/decisions": {"approvalIds": [approval], "verdict": "approve"},
        "/api/graphs/{graph_key}": {"name": "Mine"},
        "/api/graphs/{graph_key}/duplicate": {"name": "Mine"},
        "/api/graphs/{graph_key}/tidy": {},
        "/api/graphs/{graph_key}/paste": {"text": "{}", "x": 0, "y": 0, "sheet": "0"},
        "/api/graphs/{graph_key}/free-names": {"nodes": [{"key": "a", "type": "starter"}]},
        "/api/graphs/{graph_key}/meanings": {"nodes": ["fetch-api"]},
        "/api/graphs/{graph_key}/copy": {"nodes": [twist(keys["node_key"])], "format": "n8n"},
        "/api/connections": {"name": "mine", "kind": "n8n", "address": "http://127.0.0.1:9"},
        "/api/connections/{connection_name}/pushes": {"graph": graph},
        "/api/connections/{connection_name}/publications": {"graph": graph},
        "/api/connections/{connection_name}/workflows": {"graph": graph},
        "/api/codemods": {"old": "https://api.example.com", "new": "https://example.org"},
        "/api/codemods/{codemod_id}/decision": {"verdict": "approve"},
        "/api/codemods/{codemod_id}/undo": {},
    }


def rest_probes(endpoints: list[tuple[str, str]]) -> list[Rest]:
    """Every endpoint, with every body it has, about a graph and not."""
    known = bodies(dict.fromkeys(("graph_key", "thread_id", "approval_id", "node_key"), "x"), str)
    found: list[Rest] = []
    for method, template in endpoints:
        if template == "/api/graphs/import":
            continue
        for body in [name for name in known if name.split(" ")[0] == template] or [None]:
            for query in (None, "graph_key"):
                for workspace in WORKSPACES:
                    found.append(
                        Rest(
                            method=method,
                            template=template,
                            body=body,
                            query=query,
                            workspace=workspace,
                        )
                    )
    return found


def ws_messages(keys: Keys, twist: Twist) -> list[dict[str, Any]]:
    """Every message of the protocol that can name a key; without `_id`."""
    graph, thread, approval, node, edge, sheet = (
        twist(keys[name])
        for name in ("graph_key", "thread_id", "approval_id", "node_key", "edge_key", "sheet_id")
    )
    run = twist(keys["session_id"])
    blocks = [{"id": "b1", "type": "USE", "target": {"kind": "node", "key": node}}]
    here = {"graphKey": graph, "sheet": "0"}
    made = {
        "type": "html",
        "typeVersion": 1,
        "posX": 1,
        "posY": 1,
        "size": {"width": 1, "height": 1},
    }
    ends = {"sourceHandle": "1", "targetHandle": "0"}
    move = {"o": 1, "p": ["posX"], "v": 1}
    return [
        {
            "type": "registerUserOnGraph",
            "name": "n",
            "sheetId": "0",
            "graphKey": graph,
            "fromTimestamp": 0,
        },
        {"type": "disconnedUserOnGraph", "graphKey": graph},
        {"type": "ai:chat", "graphKey": graph, "message": "hello"},
        {"type": "ai:chat", "graphKey": graph, "message": "hello", "threadId": thread},
        {"type": "ai:resume", "threadId": thread, "approved": True},
        {"type": "ai:answer", "threadId": thread, "response": True},
        {"type": "ai:resume", "threadId": thread, "approved": True, "approvalId": approval},
        {"type": "ai:interrupt", "threadId": thread},
        {"type": "ai:follow", "threadId": thread},
        {"type": "ai:follow", "threadId": run},
        {"type": "call:follow", "callId": twist(keys["call_id"])},
        {"type": "ai:chat", "graphKey": graph, "message": "hello", "threadId": run},
        {"type": "ai:resume", "threadId": run, "approved": True, "approvalId": approval},
        {"type": "ai:answer", "threadId": run, "response": True},
        {"type": "ai:interrupt", "threadId": run},
        {"type": "ai:chat", "graphKey": graph, "message": "hello", "blocks": blocks},
        {
            "type": "applyInstructionToGraph",
            "instructions": [{"i": move, "sheetId": "0", "nodeId": node}],
        },
        {
            "type": "applyInstructionToGraph",
            "instructions": [{"i": move, "sheetId": "0", "edgeId": edge}],
        },
        {
            "type": "applyInstructionToGraph",
            "instructions": [{"i": move, "sheetId": sheet, "nodeId": "root"}],
        },
        {
            "type": "batchCreateElements",
            "sheetId": "0",
            "nodes": [{**made, **here, "_key": "new", "handles": {}}],
        },
        {
            "type": "batchCreateElements",
            "sheetId": "0",
            "nodes": [],
            "edges": [{**ends, **here, "_key": "new", "source": node, "target": node}],
        },
        {"type": "batchDeleteElements", "sheetId": "0", "nodeKeys": [node], "edgeKeys": []},
        {"type": "batchDeleteElements", "sheetId": "0", "nodeKeys": [], "edgeKeys": [edge]},
        {"type": "batchDeleteElements", "sheetId": sheet, "nodeKeys": ["root"], "edgeKeys": []},
        {"type": "renameSheet", "key": sheet, "name": "x"},
        {"type": "deleteSheet", "key": sheet},
    ]


def anonymous(text: str, keys: Keys, twist: Twist) -> str:
    """Return an answer without the keys that were named, however they were spelt."""
    for key in sorted(keys.values(), key=len, reverse=True):
        for spelt in (twist(key), key):
            for form in (
                spelt,
                repr(spelt)[1:-1],
                spelt.replace('"', '\\"'),
                repr(spelt).replace('"', '\\"'),
            ):
                text = re.sub(re.escape(form), "KEY", text, flags=re.IGNORECASE)
    return text


def picks(seed: int, count: int, choices: int) -> list[tuple[int, Twist]]:
    """Return so many choices with a spelling each, the same ones for a seed."""
    chance = random.Random(seed)
    return [(chance.randrange(choices), chance.choice(TWISTS)) for _ in range(count)]
