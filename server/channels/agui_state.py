"""The shared state of an AG-UI run: the graph, the context of the run and its changes.

Shapes: `{graph: {key, name, revision, nodes, edges, sheets, types}, context: [{nodeKey, reasons}],
changes: [{approvalId, title, revision, keys, more}]}`; `context` and `changes` are of the run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ag_ui.core import StateDeltaEvent, StateSnapshotEvent

from datasources.types import Graph, GraphStats
from graphrag.agent.events import TurnStarted
from graphrag.approvals import Approval, review_words
from graphrag.i18n import Language
from server.channels.turn_documents import Document, context_document
from tools.compact import cut_name

MAX_CONTEXT = 200  # nodes
MAX_NAMED = 200  # sheets, types, and keys of each kind that a change touched
NAME_CHARS = 200


def graph_summary(graph: Graph, stats: GraphStats) -> Document:
    """Returns a graph as the state shows it."""
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


def first_state(graph: Mapping[str, Any]) -> StateSnapshotEvent:
    """Returns the state at the start of a run."""
    return StateSnapshotEvent(snapshot={"graph": graph, "context": [], "changes": []})


def context_state(started: TurnStarted) -> StateDeltaEvent:
    """Returns the nodes that the model is shown, and why, as a change of state."""
    shown = context_document(started)[:MAX_CONTEXT]
    return _delta({"op": "replace", "path": "/context", "value": shown})


def applied_state(
    approval: Approval, graph: Mapping[str, Any], language: Language
) -> StateDeltaEvent:
    """Returns an applied change as a change of state. `graph`: its summary after the change."""
    result = approval.result
    touched = result.keys if result else {}
    change = {
        "approvalId": approval.id,
        "title": review_words(approval, language)["title"],
        "revision": result.revision if result else None,
        "keys": {kind: keys[:MAX_NAMED] for kind, keys in touched.items()},
        "more": sum(max(0, len(keys) - MAX_NAMED) for keys in touched.values()),
    }
    return _delta(
        {"op": "replace", "path": "/graph", "value": graph},
        {"op": "add", "path": "/changes/-", "value": change},
    )


def _delta(*operations: Document) -> StateDeltaEvent:
    return StateDeltaEvent(delta=list(operations))  # pyright: ignore[reportArgumentType]
