"""The state that an AG-UI client shares: the graph in short, what the model was shown, what was changed.

Shapes: `{graph: {key, name, revision, nodes, edges, sheets, types}, context: [{nodeKey, reasons}],
changes: [{approvalId, title, revision, keys, more}]}`. `context` and `changes` are those of the run.
"""

from __future__ import annotations

from typing import Any

from ag_ui.core import StateDeltaEvent, StateSnapshotEvent

from graphrag.approvals import Approval, review_words
from graphrag.i18n import Language
from server.workspaces import WorkspaceContext
from tools.compact import cut_name

MAX_NAMED = 200
"""So many sheets, types and touched keys of a kind are named."""
NAME_CHARS = 200


class GraphSummaryState:
    """The state of one run."""

    def __init__(self, place: WorkspaceContext, graph_key: str, language: Language) -> None:
        self._place, self._graph_key = place, graph_key
        self._language: Language = language

    async def snapshot(self) -> StateSnapshotEvent:
        """Raises: GraphNotFound, SourceError."""
        return StateSnapshotEvent(snapshot={"graph": await self._graph(), "context": [], "changes": []})

    async def changed(self, approval: Approval) -> StateDeltaEvent:
        """Return what an applied change did to the state. Raises: GraphNotFound, SourceError."""
        result = approval.result
        touched = result.keys if result else {}
        change = {
            "approvalId": approval.id,
            "title": review_words(approval, self._language)["title"],
            "revision": result.revision if result else None,
            "keys": {kind: keys[:MAX_NAMED] for kind, keys in touched.items()},
            "more": sum(max(0, len(keys) - MAX_NAMED) for keys in touched.values()),
        }
        delta: list[dict[str, Any]] = [
            {"op": "replace", "path": "/graph", "value": await self._graph()},
            {"op": "add", "path": "/changes/-", "value": change},
        ]
        return StateDeltaEvent(delta=delta)  # pyright: ignore[reportArgumentType]

    async def _graph(self) -> dict[str, Any]:
        source = self._place.services.source
        graph, stats = await source.get_graph(self._graph_key), await source.get_stats(self._graph_key)
        types = sorted(stats.types.items(), key=lambda item: (-item[1], item[0]))[:MAX_NAMED]
        sheets = list(graph.sheets_list.items())[:MAX_NAMED]
        return {
            "key": graph.key,
            "name": cut_name(graph.name, NAME_CHARS),
            "revision": graph.revision,
            "nodes": stats.nodes,
            "edges": stats.edges,
            "sheets": {key: cut_name(name, NAME_CHARS) for key, name in sheets},
            "types": {cut_name(name, NAME_CHARS): count for name, count in types},
        }
