"""Tells the format of a file and hands it to its importer."""

from __future__ import annotations

import zlib
from dataclasses import replace
from typing import Any

import orjson

from graphrag.importers.assemble import ImportResult, assemble
from graphrag.importers.exporter import FORMAT
from graphrag.importers.json_values import Json, as_dict, as_list, as_text
from graphrag.importers.n8n import read_n8n
from graphrag.importers.node_red import read_node_red
from graphrag.importers.nodius import import_nodius
from graphrag.importers.readable_keys import clean, derive_graph_key
from graphrag.importers.report import Format, UnreadableWorkflow
from graphrag.importers.secrets import without_secrets

MAX_DEPTH = 100
"""Values nested deeper cannot be stored safely; real workflows stay far below."""

MAX_NODES, MAX_EDGES, MAX_VALUES = 100_000, 400_000, 8_000_000
"""What one import may cost everybody else; the largest published workflows have some hundred nodes."""

_FORMATS = "an n8n workflow, a Node-RED flow or Nodius JSON"


def detect_format(raw: bytes) -> Format:
    """Return the format of a file. Raises: UnreadableWorkflow (its file is unknown here)."""
    return _recognise(_parse(raw, "(file)"), "(file)")[0]


def import_workflow(
    raw: bytes, *, file_name: str, workspace: str, graph_key: str | None = None
) -> ImportResult:
    """Read a workflow of any known format into documents of one graph, the same ones each time.

    Raises: UnreadableWorkflow.
    """
    form, document = _recognise(_parse(raw, file_name), file_name)
    if graph_key is not None and clean(graph_key) != graph_key:
        raise UnreadableWorkflow(
            file=file_name, reason="the graph key must be 1-200 characters without control characters"
        )
    result = _read(form, document, file_name, workspace, graph_key)
    _check_size("nodes", len(result.nodes), MAX_NODES, file_name)
    _check_size("edges", len(result.edges), MAX_EDGES, file_name)
    kept = zlib.compress(orjson.dumps(without_secrets(document)))
    return replace(result, kept=kept)


def _read(
    form: Format, document: Json, file_name: str, workspace: str, graph_key: str | None
) -> ImportResult:
    listed = as_list(document.get("flows" if form == "node-red" else "nodes")) or []
    _check_size("nodes", len(listed), MAX_NODES, file_name)
    if form == "nodius":
        _check_size("edges", len(as_list(document.get("edges")) or []), MAX_EDGES, file_name)
        return import_nodius(document, file_name=file_name, workspace=workspace, graph_key=graph_key)
    if form == "n8n":
        draft, given = read_n8n(document, file_name=file_name), as_text(document.get("name"))
    else:
        draft = read_node_red(document, file_name=file_name)
        given = draft.name
    key = graph_key or derive_graph_key(name=given, identity=draft.identity, file_name=file_name)
    return assemble(draft, workspace=workspace, graph_key=key)


def _check_size(what: str, number: int, most: int, file_name: str) -> None:
    if number > most:
        reason = f"it has {number:,} {what}, at most {most:,} are taken; split the workflow"
        raise UnreadableWorkflow(file=file_name, reason=reason)


def _parse(raw: bytes, file_name: str) -> Any:
    if not raw.strip():
        raise UnreadableWorkflow(file=file_name, reason="it is empty")
    text: bytes | str = raw.removeprefix(b"\xef\xbb\xbf")
    if raw[:2] in (b"\xff\xfe", b"\xfe\xff"):
        text = raw.decode("utf-16", "replace")
    try:
        document: Any = orjson.loads(text)
    except orjson.JSONDecodeError as exc:
        reason = f"it is not JSON ({exc.msg}, line {exc.lineno}, column {exc.colno}); expected {_FORMATS}"
        raise UnreadableWorkflow(file=file_name, reason=reason) from exc
    _check_values(document, file_name)
    return document


def _holds_values(value: Any) -> bool:
    return isinstance(value, dict | list)


def _check_values(document: Any, file_name: str) -> None:
    """Refuse what is nested too deep or has too many values, before anything else reads it."""
    level: list[Any] = [document] if _holds_values(document) else []
    values, depth = 0, 0
    while level:
        if depth == MAX_DEPTH:
            raise UnreadableWorkflow(
                file=file_name, reason=f"it is nested more than {MAX_DEPTH} levels deep, which is the limit"
            )
        below: list[Any] = []
        for item in level:
            fields = as_dict(item)
            inner = list(item if fields is None else fields.values())
            values += len(inner)
            _check_size("values", values, MAX_VALUES, file_name)
            below.extend(filter(_holds_values, inner))
        level, depth = below, depth + 1


def _recognise(document: Any, file_name: str) -> tuple[Format, Json]:
    listed = as_list(document)
    if listed is not None:
        return _recognise_list(listed, file_name)
    fields = as_dict(document)
    if fields is None:
        kind = type(document).__name__
        raise UnreadableWorkflow(file=file_name, reason=f"its JSON is a bare {kind}, not {_FORMATS}")
    if fields.get("format") == FORMAT:
        return "nodius", fields
    if "format" not in fields and {"graph", "nodes", "edges", "configs"} <= fields.keys():
        # A bare export, such as the sample graphs: without a frame it is of the first version.
        return "nodius", {"format": FORMAT, "formatVersion": 1, **fields}
    if as_list(fields.get("flows")) is not None:
        return "node-red", fields
    inner = as_dict(fields.get("workflow"))
    if "nodes" not in fields and inner is not None and as_list(inner.get("nodes")) is not None:
        return _recognise(inner, file_name)  # as the template service wraps it
    if as_list(fields.get("nodes")) is not None and not _is_other_tool(fields):
        return "n8n", fields
    raise UnreadableWorkflow(file=file_name, reason=_why_not(fields))


def _recognise_list(listed: list[Any], file_name: str) -> tuple[Format, Json]:
    items = [item for item in map(as_dict, listed) if item is not None]
    if not items:
        raise UnreadableWorkflow(
            file=file_name, reason=f"its JSON is a list without an object, not {_FORMATS}"
        )
    workflows = [item for item in items if as_list(item.get("nodes")) is not None and "connections" in item]
    if workflows:
        if len(items) > 1:
            reason = f"it holds {len(items)} n8n workflows; save each one as a file of its own"
            raise UnreadableWorkflow(file=file_name, reason=reason)
        return "n8n", workflows[0]
    if not any("type" in item and "id" in item for item in items):
        raise UnreadableWorkflow(
            file=file_name, reason=f"its JSON is a list, but not of Node-RED nodes; expected {_FORMATS}"
        )
    return "node-red", {"flows": listed}


def _is_other_tool(fields: Json) -> bool:
    if "connections" in fields:
        return False
    return "edges" in fields or "links" in fields


def _why_not(fields: Json) -> str:
    if {"graph", "nodes", "edges"} <= fields.keys():
        return 'it looks like Nodius JSON, but its "format" is not "nodius" or its "configs" are missing'
    if _is_other_tool(fields) or "data" in fields:
        return f"it seems to be a workflow of another tool; expected {_FORMATS}"
    shown = ", ".join(sorted(fields)[:5]) or "none"
    return f"its JSON object (fields: {shown}) is not {_FORMATS}"
