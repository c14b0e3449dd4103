"""What tests of pushes to n8n share: secrets in workflows, and how documents differ."""

from typing import Any

from tests.graphrag.connections.conftest import ADMIN, Setting, new
from tests.support.n8n_openapi import N8N_NODE_FIELDS
from tests.support.workflow_servers import N8nDouble

SECRETS = {
    "password": "correct-horse-battery-1",
    "url": "https://ann:pass-in-address-77@api.example.org/orders?api_key=sk_live_0123456789abcdefABCD",
    "headers": {
        "parameters": [
            {"name": "Authorization", "value": "Bearer abcdefghijklmnopqrstuvwxyz0123456789"},
            {"name": "X-Api-Key", "value": "k-0123456789abcdef0123456789abcdef"},
            {"name": "Accept", "value": "application/json"},
        ]
    },
    "jsCode": "const token = 'ghp_0123456789abcdefghijABCDEFGHIJ0123';\nreturn items;",
}


async def connected(setting: Setting, n8n: N8nDouble, **more: Any) -> None:
    await setting.connections.add(new(n8n.address, push="ask", key=n8n.key, **more), ADMIN)
    await setting.changes()


def puts(n8n: N8nDouble) -> list[str]:
    """Returns the request lines of updates; none of a running n8n, which keeps no list."""
    if not isinstance(n8n, N8nDouble):
        return []
    return [each.line for each in n8n.api.arrived if each.line.startswith("PUT ")]


def differences(one: Any, other: Any, path: str = "") -> list[str]:
    """Returns the places at which two documents differ."""
    if isinstance(one, dict) and isinstance(other, dict):
        return [
            place
            for name in one.keys() | other.keys()
            for place in differences(one.get(name), other.get(name), f"{path}.{name}")
        ]
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        return [
            place
            for number, (left, right) in enumerate(zip(one, other, strict=True))
            for place in differences(left, right, f"{path}[{number}]")
        ]
    return [] if one == other else [path]


def with_secrets(document: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """Returns a workflow with a secret and a note in each node, and the name of a step."""
    nodes = [
        {name: value for name, value in node.items() if name in N8N_NODE_FIELDS}
        for node in document["nodes"]
    ]
    for number, node in enumerate(nodes):
        parameters = node.get("parameters") or {}
        secret = {"password": f"correct-horse-battery-{number}", "note": "a"}
        node["parameters"] = {**parameters, **secret}
    steps = [node["name"] for node in nodes if "stickyNote" not in node["type"]]
    settings = document.get("settings") or {}
    return {**document, "nodes": nodes, "settings": settings}, steps[-1]
