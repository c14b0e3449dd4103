"""The results of calls, and proposals, as MCP clients receive them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import mcp_types as types

from datasources.types import Edge, Graph, Node, NodeTypeConfig
from graphrag.agent.requested_calls import Answered
from graphrag.approvals import Approval, outcome_text, title
from graphrag.i18n import Language
from graphrag.i18n import text as text_of
from graphrag.importers.nodius import node_document
from server.bodies import AnswerBody
from server.channels.turn_documents import proposal_sentence
from server.mcp.app_resource import RESULT_META
from tools.answer_tables import parse_answer
from tools.compact import cut
from tools.secret_texts import redacted

MAX_ITEMS: Final = 60
MAX_CHARS: Final = 2_000
MAX_DEPTH: Final = 8
MAX_BYTES: Final = 256_000
_NODE: Final = ("_key", "type", "sheet", "posX", "posY", "size", "handles", "data")
_TYPE: Final = ("type", "displayName", "description", "category", "icon", "border")
_NOT_SHOWN: Final = {"action", "result", "code_diffs", "comments", "objection"}


def failed(text: str) -> types.CallToolResult:
    """Returns the result of a call that was refused."""
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)], is_error=True)


def result(text: str, structured: Mapping[str, Any]) -> types.CallToolResult:
    """Returns the result of a call, as text and structured."""
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=text)], structured_content=dict(structured)
    )


def read_result(answered: Answered, most: int) -> types.CallToolResult:
    """Returns the result of a read, as text and as the parts of that text; secrets are masked in
    both.
    """
    text = cut(answered.result.text, most)
    if answered.result.is_error:
        return failed(text)
    parts = parse_answer(text)
    tables = {name or "rows": list(rows) for name, rows in parts.tables.items()}
    return result(
        text, {"fields": dict(parts.fields), "tables": tables, "notes": list(parts.notes)}
    )


def proposal_status(approval: Approval, link: str, language: Language) -> dict[str, str]:
    """Returns the status of a proposal and its link in the page."""
    return {
        "id": approval.id,
        "graphKey": approval.graph_key,
        "title": title(approval, language),
        "status": approval.status,
        "outcome": outcome_text(approval, language, to_person=True),
        "link": link,
    }


def status_result(status: Mapping[str, str]) -> types.CallToolResult:
    """Returns the result of a question about one proposal."""
    outcome = status["outcome"] or status["status"]
    return result(f"{status['title']}: {outcome}\n{status['link']}", status)


def list_result(rows: Sequence[Mapping[str, str]], language: Language) -> types.CallToolResult:
    """Returns the result of a question about several proposals."""
    lines = [f"{row['id']} {row['status']} {row['graphKey']}: {row['title']}" for row in rows]
    written = "\n".join(lines) or text_of("mcp_no_proposals", language)
    return result(written, {"proposals": list(rows)})


def proposed_result(
    approval: Approval, link: str, view: Mapping[str, Any], language: Language
) -> types.CallToolResult:
    """Returns the result of a proposal: its status for the model, and in `_meta` the view, which
    models do not read.
    """
    sentence = proposal_sentence(approval, link, language)
    status = proposal_status(approval, link, language)
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=sentence)],
        # Some programs give their model this in place of the text.
        structured_content={**status, "outcome": sentence},
        _meta={RESULT_META: dict(view)},
    )


def view_document(
    proposal: AnswerBody, link: str, around: Mapping[str, Any], names: Mapping[str, str]
) -> dict[str, Any]:
    """Returns `{proposal, link, around, names}`, short enough for the `_meta` of a result.

    `proposal` is as REST answers it, without its action; `around` are the nodes near it, and
    `names` those of its people by user id.
    """
    document = proposal.model_dump(
        mode="json", by_alias=True, exclude_none=True, exclude=_NOT_SHOWN
    )
    return _fitting(
        {
            "proposal": _bounded(document),
            "link": link,
            "around": _bounded(around),
            "names": dict(names),
        }
    )


def graph_around(
    graph: Graph, nodes: Iterable[Node], edges: Iterable[Edge], types: Iterable[NodeTypeConfig]
) -> dict[str, Any]:
    """Returns the part of a graph that a proposal is drawn in."""
    shown = {
        node.key: {k: v for k, v in node_document(node).items() if k in _NODE} for node in nodes
    }
    named = {node["type"] for node in shown.values()}
    documents = (
        {**config.to_document(), "type": config.type} for config in types if config.type in named
    )
    return {
        "graph": {"name": graph.name, "sheetsList": graph.sheets_list},
        "nodes": list(shown.values()),
        "edges": [edge.to_document() for edge in edges],
        "types": [{k: v for k, v in document.items() if k in _TYPE} for document in documents],
    }


def _bounded(value: Any, depth: int = 0) -> Any:
    """Returns a JSON value with few items, short texts and no secrets."""
    if isinstance(value, str):
        text = redacted(value[: 2 * MAX_CHARS]).text
        return text if len(text) <= MAX_CHARS else f"{text[:MAX_CHARS]}…"
    if isinstance(value, dict | list) and depth > MAX_DEPTH:
        return "…"
    if isinstance(value, dict):
        items: list[tuple[str, Any]] = list(value.items())  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
        return {key: _bounded(each, depth + 1) for key, each in items[:MAX_ITEMS]}
    if isinstance(value, list):
        return [_bounded(each, depth + 1) for each in value[:MAX_ITEMS]]  # pyright: ignore[reportUnknownVariableType]
    return value


def _fitting(view: dict[str, Any]) -> dict[str, Any]:
    """Returns the view without the nodes around and, if it is still too long, without its preview;
    `cut` says so.
    """
    if _size(view) > MAX_BYTES:
        view = {**view, "around": {"graph": view["around"]["graph"]}}
    if _size(view) > MAX_BYTES:
        view = {**view, "proposal": {**view["proposal"], "preview": {}, "cut": True}}
    return view


def _size(view: dict[str, Any]) -> int:
    return len(json.dumps(view, ensure_ascii=False).encode())
