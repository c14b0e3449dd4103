"""Recognises documents of other tools, so that a refusal can name them."""

from __future__ import annotations

from typing import Any

from graphrag.importers.json_values import Json, as_dict, as_list

# Title of a document, and the fields that its object has, or the objects of its list.
_KINDS: tuple[tuple[str, str], ...] = (
    ("an execution of n8n, not its workflow", "workflowData"),
    ("a list of executions of n8n", "workflowId mode"),
    ("a list of credentials of n8n", "name type data id"),
    ("an automation of Home Assistant", "triggers actions"),
    ("an automation of Home Assistant", "trigger action"),
    ("an automation of Home Assistant", "alias trigger"),
    ("an automation of Home Assistant", "alias triggers"),
    ("a script of Home Assistant", "alias sequence"),
    ("Node-RED's list of installed nodes", "module types enabled"),
    ("a list of users", "email role"),
    ("a list of users", "email username"),
    ("a list of users", "email firstName"),
    ("a workflow of ComfyUI", "nodes links"),
    ("a workflow of ComfyUI", "class_type inputs"),
    ("a scenario of Make", "flow metadata"),
    ("a state machine of AWS Step Functions", "StartAt States"),
    ("a flow of Power Automate", "properties.definition"),
    ("a flow of Power Automate", "definition.actions"),
    ("a flow of Langflow", "data.nodes data.edges"),
    ("a flow of Activepieces", "trigger.type displayName"),
    ("a flow of Windmill", "value.modules"),
    ("an OpenAPI description", "openapi paths"),
    ("an OpenAPI description", "swagger paths"),
    ("a collection of Postman", "info item"),
    ("a package.json", "name version dependencies"),
    ("a flow of React Flow, Flowise or another editor of nodes and edges", "nodes edges"),
)


def kind_of(document: Any) -> str | None:
    """Returns the kind of a document with an article (`a package.json`), None if it is not
    recognised.
    """
    entries = as_list(document)
    if entries is None and (fields := as_dict(document)) is not None:
        data = as_list(fields.get("data"))
        entries = data if data and len(fields) <= 3 else [*_inner(fields)]
    items = [item for item in map(as_dict, entries or ()) if item is not None]
    for title, field_paths in _KINDS:
        paths = field_paths.split()
        if items and all(any(_has(item, path) for item in items[:20]) for path in paths):
            return title
    return None


def _inner(fields: Json) -> list[Json]:
    """Returns the objects in an object with numeric keys (as of ComfyUI's API), or else the object
    itself.
    """
    inner = [item for item in map(as_dict, fields.values()) if item is not None]
    return inner if inner and all(name.isdigit() for name in fields) else [fields]


def _has(fields: Json, path: str) -> bool:
    name, _, rest = path.partition(".")
    return name in fields and (not rest or _has(as_dict(fields[name]) or {}, rest))
