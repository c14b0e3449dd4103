"""What the view of a proposal is given: the proposal, where the page shows it, the graph around it; bounded.

Other programs, and perhaps their models, read this: secrets in texts are masked.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Final

from datasources.builtin_types import types_by_name
from datasources.types import Edge, Graph, Node, NodeTypeConfig
from graphrag.approvals import Approval
from graphrag.i18n import Language
from graphrag.importers.nodius.writer import node_document
from graphrag.workers import run_limited
from server.approval_documents import approval_document
from server.review_links import review_link
from server.workspaces import WorkspaceContext
from tools.secret_texts import redacted

MAX_AROUND: Final = 60
MAX_ITEMS: Final = 60
MAX_CHARS: Final = 2_000
MAX_DEPTH: Final = 8
MAX_BYTES: Final = 256_000
_NODE: Final = ("_key", "type", "sheet", "posX", "posY", "size", "handles", "data")
_TYPE: Final = ("type", "displayName", "description", "category", "icon", "border")
_NOT_SHOWN: Final = {"action", "result", "code_diffs", "comments", "objection"}


async def proposal_view(place: WorkspaceContext, approval: Approval, language: Language) -> dict[str, Any]:
    """Return `{proposal, link, around}`, to stand in a result's `_meta` under `app_resource.RESULT_META`.

    Not its `structuredContent`: some programs give that to their model, and this may be long.
    `proposal` is as REST gives it, without its action. Raises: SourceError.
    """
    source = place.services.source
    graph = await source.get_graph(approval.graph_key)
    keys = list(dict.fromkeys(_touched(approval.preview)))[:MAX_AROUND]
    near = await source.get_neighborhood(approval.graph_key, keys, max_depth=1, limit=MAX_AROUND)
    types = types_by_name(await source.get_node_configs(sorted({node.type for node in near.nodes})))
    link = review_link(place.services.settings, approval)

    def written() -> dict[str, Any]:
        document = approval_document(place, approval, language)
        proposal = document.model_dump(mode="json", by_alias=True, exclude_none=True, exclude=_NOT_SHOWN)
        around = _around(graph, near.nodes, near.edges, types.values())
        return _fitting({"proposal": _bounded(proposal), "link": link, "around": _bounded(around)})

    return await run_limited(written)


def _touched(preview: dict[str, Any]) -> Iterable[str]:
    """Yield the keys of nodes that a preview names; such as it adds are in no graph yet."""
    for name in ("nodesChanged", "nodesMoved"):
        yield from (change["key"] for change in preview.get(name, []))
    yield from (node["_key"] for node in preview.get("nodesRemoved", []))
    for name in ("edgesAdded", "edgesRemoved"):
        for edge in preview.get(name, []):
            yield from (edge["source"], edge["target"])


def _around(
    graph: Graph, nodes: Iterable[Node], edges: Iterable[Edge], types: Iterable[NodeTypeConfig]
) -> dict[str, Any]:
    shown = {node.key: {k: v for k, v in node_document(node).items() if k in _NODE} for node in nodes}
    named = {node["type"] for node in shown.values()}
    documents = ({**config.to_document(), "type": config.type} for config in types if config.type in named)
    return {
        "graph": {"name": graph.name, "sheetsList": graph.sheets_list},
        "nodes": list(shown.values()),
        "edges": [edge.to_document() for edge in edges],
        "types": [{k: v for k, v in document.items() if k in _TYPE} for document in documents],
    }


def _bounded(value: Any, depth: int = 0) -> Any:
    """Return a JSON value with few items, short texts and no secrets."""
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
    """Leave out the surroundings, then the preview, of what is too long even so; it says that it is cut."""
    if _size(view) > MAX_BYTES:
        view = {**view, "around": {"graph": view["around"]["graph"]}}
    if _size(view) > MAX_BYTES:
        view = {**view, "proposal": {**view["proposal"], "preview": {}, "cut": True}}
    return view


def _size(view: dict[str, Any]) -> int:
    return len(json.dumps(view, ensure_ascii=False).encode())
