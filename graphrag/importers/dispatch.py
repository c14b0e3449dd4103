"""Parses a file, recognises its format, and reads it within limits of size and nesting.

A new format is a file (or a folder) with one `WorkflowFormat`, and one entry in `FORMATS`.
"""

from __future__ import annotations

import zlib
from dataclasses import replace
from typing import Any

import orjson

from graphrag.embedding.language import written_in
from graphrag.importers import readable_keys, workflow_format
from graphrag.importers.assemble import assemble
from graphrag.importers.json_text import parse_json
from graphrag.importers.json_values import Json, as_dict, as_list
from graphrag.importers.n8n import N8N
from graphrag.importers.n8n.n8n_documents import workflows_in
from graphrag.importers.node_red import NODE_RED
from graphrag.importers.nodius import NODIUS
from graphrag.importers.other_documents import kind_of
from graphrag.importers.report import Tally, UnreadableWorkflow
from graphrag.importers.secrets import without_secrets
from graphrag.importers.workflow_draft import WorkflowDraft

# In this order: the first format that recognises a document reads it.
FORMATS: tuple[workflow_format.WorkflowFormat, ...] = (NODIUS, NODE_RED, N8N)

# Levels of nesting. A deeper value cannot be stored safely; real workflows have far fewer.
MAX_DEPTH = 100

# Number of values in one file.
MAX_VALUES = 8_000_000


def import_workflow(
    raw: bytes, *, file_name: str, workspace: str, graph_key: str | None = None
) -> workflow_format.ImportResult:
    """Converts a workflow file of any known format to the documents of one graph.

    The same file always gives the same documents. Raises: UnreadableWorkflow.
    """
    if graph_key is not None and readable_keys.clean(graph_key) != graph_key:
        reason = "the graph key must be 1-200 characters without control characters"
        raise UnreadableWorkflow(file=file_name, reason=reason)
    target = workflow_format.ImportTarget(
        file_name=file_name, workspace=workspace, graph_key=graph_key
    )
    tally = Tally()
    try:
        form, document = _recognise(_parse(raw, tally), tally)
        clean = document if form.keeps_secrets else without_secrets(document, tally)
        read = form.read(clean, target, tally)
        result = assemble(read, target) if isinstance(read, WorkflowDraft) else read
        workflow_format.check_size("nodes", len(result.nodes), workflow_format.MAX_NODES)
        workflow_format.check_size("edges", len(result.edges), workflow_format.MAX_EDGES)
    except UnreadableWorkflow as exc:
        exc.file = file_name
        raise
    if language := written_in(result.graph, result.nodes):
        result = replace(result, graph=result.graph.replace(language=language))
    kept = without_secrets(document) if form.keeps_secrets else clean
    return replace(result, kept=zlib.compress(orjson.dumps(kept)))


def separated(raw: bytes) -> list[bytes]:
    """Returns one file for each workflow if the file is a list of n8n workflows, otherwise the file
    unchanged.
    """
    try:
        workflows = workflows_in(parse_json(raw, Tally()))
    except orjson.JSONDecodeError:
        return [raw]  # the reader refuses it with the reason
    return [orjson.dumps(workflow) for workflow in workflows] if len(workflows) > 1 else [raw]


def _expected() -> str:
    *first, last = (form.title for form in reversed(FORMATS))
    return f"{', '.join(first)} or {last}"


def _parse(raw: bytes, tally: Tally) -> Any:
    if not raw.strip():
        raise UnreadableWorkflow(reason="it is empty")
    try:
        document = parse_json(raw, tally)
    except orjson.JSONDecodeError as exc:
        reason = f"it is not JSON ({exc.msg}, line {exc.lineno}, column {exc.colno}); expected {_expected()}"
        raise UnreadableWorkflow(reason=reason) from exc
    _check_values(document)
    return document


def _holds_values(value: Any) -> bool:
    return isinstance(value, dict | list)


def _check_values(document: Any) -> None:
    """Checks nesting and number of values before anything else reads the file.

    Raises: UnreadableWorkflow.
    """
    level: list[Any] = [document] if _holds_values(document) else []
    values, depth = 0, 0
    while level:
        if depth == MAX_DEPTH:
            raise UnreadableWorkflow(
                reason=f"it is nested more than {MAX_DEPTH} levels deep, the maximum"
            )
        below: list[Any] = []
        for item in level:
            fields = as_dict(item)
            inner = list(item if fields is None else fields.values())
            values += len(inner)
            workflow_format.check_size("values", values, MAX_VALUES)
            below.extend(filter(_holds_values, inner))
        level = below
        depth = depth + 1


def _recognise(document: Any, tally: Tally) -> tuple[workflow_format.WorkflowFormat, Json]:
    for form in FORMATS:
        content = form.recognise(document, tally)
        if content is not None:
            return form, content
    fields = as_dict(document)
    items = as_list(document)
    if (kind := kind_of(document)) is not None:
        raise UnreadableWorkflow(reason=f"it is {kind}, not {_expected()}")
    if fields is not None:
        shown = f"its JSON object (fields: {', '.join(sorted(fields)[:5]) or 'none'})"
    else:
        shown = (
            f"its JSON is a bare {type(document).__name__}, which"
            if items is None
            else "its JSON list"
        )
    raise UnreadableWorkflow(reason=f"{shown} is not {_expected()}")
