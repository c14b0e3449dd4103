"""Computes an earlier state of a graph, by undoing the later revisions one after another."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Final, TypeVar, cast

from datasources.base import MutableGraphDataSource, RecordStore
from datasources.errors import BadDocument, InstructionError, RevisionConflict
from datasources.instructions import IDENTITY_FIELDS, apply_instruction
from datasources.types import Edge, Graph, Node, parse_document
from graphrag.changes.draft import LiveState
from graphrag.live.history_entries import KINDS, Entry
from graphrag.live.live_graph import LiveGraph
from graphrag.live.revisions import Revision, Revisions
from graphrag.live.working_copy import read_stored
from graphrag.workers import run_limited
from tools.actions.field_changes import json_document

E = TypeVar("E", Node, Edge)
# Documents by key, as models or, after something was undone in them, as JSON.
Documents = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class PastLimits:
    """Limits of restoring an earlier state of a graph."""

    # Revisions that are taken back.
    revisions: int = 5_000
    # Revisions undone in one step of a worker thread.
    at_once: int = 100
    # Attempts to read graph and history while others store changes.
    attempts: int = 3


PAST_LIMITS: Final = PastLimits()

_GRAPH_FIELDS = ("name", "description", "category", "sheetsList")


@dataclass(frozen=True, slots=True, kw_only=True)
class PastGraph:
    """An earlier state of a graph. `gaps` counts changes that could not be undone.

    `at` is later than the requested time if the history does not reach back to it.
    """

    state: LiveState
    at: int
    gaps: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Present:
    """The present state of a graph, with its unsaved history.

    `until` is the time of the latest live edit in the state; None if the graph is not live here.
    """

    state: LiveState
    revision: int
    unsaved: Sequence[Entry]
    until: int | None

    def holds(self, revision: Revision) -> bool:
        """Returns whether the state contains a revision."""
        if revision.edit is not None:
            return self.until is None or revision.at <= self.until
        return int(revision.facts.get("revision") or 0) <= self.revision


async def present(
    source: MutableGraphDataSource,
    live: LiveGraph | None,
    graph_key: str,
    *,
    only: Collection[str] | None = None,
) -> Present:
    """Returns the present graph, with its unsaved edits if it is live here. Raises: GraphNotFound.

    With `only`, reads just the nodes of these keys and no edges.
    """
    if live is None:
        state = await read_stored(source, graph_key, only=only)
        return Present(state=state, revision=state.graph.revision, unsaved=(), until=None)
    # No await until everything is copied, so that all parts are of one moment.
    nodes, edges = live.nodes, live.edges
    if only is not None:
        nodes = [node for node in nodes if node.key in only]
        edges = []
    parts = live.document(), nodes, edges
    revision = live.status().revision
    unsaved = live.unsaved_history
    until = live.timestamp
    state = await run_limited(LiveState, *parts)
    return Present(state=state, revision=revision, unsaved=unsaved, until=until)


async def graph_at(
    source: MutableGraphDataSource,
    records: RecordStore,
    live: LiveGraph | None,
    graph_key: str,
    at: int,
) -> PastGraph:
    """Returns the graph at a time, in milliseconds since 1970.

    Raises: GraphNotFound, SourceError; RevisionConflict if others store changes faster than they
    can be read.
    """
    now = await present(source, live, graph_key)
    expected = now.revision
    for _ in range(PAST_LIMITS.attempts):
        past = await _rewind(records, now, at)
        if live is not None:
            return past
        reread = await present(source, None, graph_key)
        if reread.revision == now.revision:
            return past
        expected = now.revision
        now = reread
    raise RevisionConflict(graph_key=graph_key, expected=expected, actual=now.revision)


async def _rewind(records: RecordStore, now: Present, at: int) -> PastGraph:
    history = Revisions(records, now.state.graph.key, now.unsaved, with_undo=True)
    rewound = Rewound(now.state.graph, dict(now.state.nodes), dict(now.state.edges))
    batch: list[Revision] = []
    reached = at
    count = 0
    async with aclosing(history.newest_first()) as revisions:
        async for revision in revisions:
            if revision.at <= at:
                break
            if count == PAST_LIMITS.revisions or revision.kind == "created":
                reached = revision.at
                break
            if now.holds(revision):
                batch.append(revision)
                count += 1
            if len(batch) == PAST_LIMITS.at_once:
                await run_limited(rewound.undo_all, batch)
                batch = []
        else:
            reached = max(at, (history.cut_at or at + 1) - 1)
    await run_limited(rewound.undo_all, batch)
    return PastGraph(state=await run_limited(rewound.state), at=reached, gaps=rewound.gaps)


class Rewound:
    """Undoes revisions, the latest first, in copies of documents."""

    def __init__(self, graph: Graph, nodes: Documents, edges: Documents) -> None:
        self._graph = graph.to_document()
        self.nodes = nodes
        self._edges = edges
        self._graph["sheetsList"] = dict(graph.sheets_list)
        self.gaps = 0

    def undo_all(self, revisions: Sequence[Revision]) -> None:
        for revision in revisions:
            self.undo(revision)

    def undo(self, revision: Revision, *, node: str | None = None) -> None:
        """Undoes a revision as far as possible; with `node` only its changes of that node."""
        if revision.edit is not None:
            for entry in reversed(revision.edit.entries):
                if node is None or entry.get("nodeId", node) == node:
                    self._undo_entry(entry)
            return
        if revision.kind == "renamed":
            self._graph["name"] = revision.facts.get("from", self._graph["name"])
        if revision.kind in ("renamed", "restored"):
            return
        result = revision.approval.result if revision.approval else None
        if result is None or result.inverse is None:
            self.gaps += 1
            return
        self._put_back(result.inverse)

    def _put_back(self, inverse: Mapping[str, Any]) -> None:
        for documents, put, deleted in (
            (self.nodes, "putNodes", "deleteNodes"),
            (self._edges, "putEdges", "deleteEdges"),
        ):
            for key in inverse.get(deleted, ()):
                documents.pop(key, None)
            documents.update({raw["_key"]: raw for raw in inverse.get(put, ())})
        if "graph" in inverse:
            self._graph |= {name: inverse["graph"].get(name) for name in _GRAPH_FIELDS}

    def _undo_entry(self, entry: Entry) -> None:
        kind, operation = KINDS.get(str(entry.get("type")), ("", ""))
        documents = {"node": self.nodes, "edge": self._edges}.get(kind, {})
        sheets = self._graph["sheetsList"]
        try:
            match kind, operation:
                case "sheet", "Create":
                    sheets.pop(entry["key"], None)
                case "sheet", _:
                    sheets[entry["key"]] = entry[
                        "previousName" if operation == "Rename" else "name"
                    ]
                case _, "Create":
                    for raw in entry[f"{kind}s"]:
                        self.gaps += documents.pop(raw["_key"], None) is None
                case _, "Delete":
                    documents.update({raw["_key"]: raw for raw in entry[f"{kind}s"]})
                case _:
                    document = plain(documents[entry[f"{kind}Id"]])
                    for instruction in entry["reversedInstruction"]:
                        document = apply_instruction(
                            document, instruction, protected=IDENTITY_FIELDS
                        )
                    documents[entry[f"{kind}Id"]] = document
        except (KeyError, TypeError, InstructionError):
            self.gaps += 1

    def state(self) -> LiveState:
        """Returns the graph. A document that can no longer be read is omitted and counted
        as a gap.
        """
        graph = parse_document(
            Graph, {k: v for k, v in self._graph.items() if v is not None}, "graphs"
        )
        return LiveState(graph, self._read(Node, self.nodes), self._read(Edge, self._edges))

    def _read(self, model: type[E], documents: Documents) -> list[E]:
        parsed: list[E] = []
        for document in documents.values():
            try:
                is_read = isinstance(document, model)
                parsed.append(document if is_read else parse_document(model, document, "history"))
            except BadDocument:
                self.gaps += 1
        return parsed


def plain(document: Any) -> dict[str, Any]:
    """Returns a document of either form as JSON. Raises: TypeError for None."""
    return (
        json_document(document)
        if isinstance(document, Node | Edge)
        else cast(dict[str, Any], {**document})
    )
