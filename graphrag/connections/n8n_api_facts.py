"""Reads from an n8n server's own description of its API what it accepts.

Accepted fields differ between releases, so they come from `openapi.yml`, which each server serves.
The file has some 700 kB, of which a few blocks are needed: they are cut out by their indentation,
because reading the whole takes a second.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from graphrag.importers.json_values import Json, as_dict, as_list, as_text

UPDATE_PATH = re.compile(r"/workflows/\{[A-Za-z]+\}\Z")
MAX_REFERENCES = 10
_NOTHING: Json = {}
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""The loader in C where it is there: it is ten times as fast."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiFacts:
    """What an update of a workflow may hold, and whether it can leave the published version alone.

    `node_fields` is empty where the server does not say.
    """

    keeps_published: bool = False
    workflow_fields: frozenset[str] = frozenset()
    node_fields: frozenset[str] = frozenset()


def api_facts(text: str) -> ApiFacts:
    """Returns the facts of an `openapi.yml`; nothing is accepted where it cannot be read."""
    lines = text.splitlines()
    blocks = _blocks(lines, "paths", UPDATE_PATH)
    operation = next((put for block in blocks if (put := as_dict(block.get("put")))), None)
    if operation is None:
        return ApiFacts()
    names = [as_text((as_dict(each) or {}).get("name")) for each in _parameters(operation)]
    body = as_dict(operation.get("requestBody")) or {}
    content = as_dict((as_dict(body.get("content")) or {}).get("application/json")) or {}
    schema = _resolved(lines, content.get("schema"))
    fields = as_dict(schema.get("properties")) or {}
    nodes = _resolved(lines, fields.get("nodes"))
    node = _resolved(lines, nodes.get("items"))
    return ApiFacts(
        keeps_published="publishIfActive" in names,
        workflow_fields=_writable(fields),
        node_fields=_writable(as_dict(node.get("properties")) or {}),
    )


def _parameters(operation: Json) -> list[Any]:
    return as_list(operation.get("parameters")) or []


def _writable(fields: Mapping[str, Any]) -> frozenset[str]:
    return frozenset(
        name for name, field in fields.items() if not (as_dict(field) or {}).get("readOnly")
    )


def _resolved(lines: list[str], schema: Any) -> Json:
    """Returns a schema, or the one that it refers to in the same file."""
    found = as_dict(schema) or {}
    for _ in range(MAX_REFERENCES):
        reference = as_text(found.get("$ref"))
        if reference is None:
            return found
        name = re.escape(reference.rpartition("/")[2])
        found = next(_blocks(lines, "schemas", re.compile(f"{name}\\Z")), _NOTHING)
    return {}


def _blocks(lines: list[str], section: str, name: re.Pattern[str]) -> Iterator[Json]:
    """Yields the mappings of a section whose key fits."""
    start = next((n for n, line in enumerate(lines) if line.strip() == f"{section}:"), None)
    if start is None:
        return
    depth = _indent(lines[start])
    inner: int | None = None
    for number in range(start + 1, len(lines)):
        line = lines[number]
        if not line.strip():
            continue
        if _indent(line) <= depth:
            return
        inner = _indent(line) if inner is None else inner
        key = line.strip().rstrip(":").strip("'\"")
        if _indent(line) == inner and line.rstrip().endswith(":") and name.match(key):
            yield _parsed(lines, number, inner)


def _parsed(lines: list[str], number: int, depth: int) -> Json:
    end = number + 1
    while end < len(lines) and (not lines[end].strip() or _indent(lines[end]) > depth):
        end += 1
    try:
        content = yaml.load("\n".join(lines[number + 1 : end]), Loader=_LOADER)
    except yaml.YAMLError:
        return {}
    return as_dict(content) or {}


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))
