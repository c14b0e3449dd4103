"""The declaration of a workflow file format, with the input and the result of its reader."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

from datasources.types import Edge, Graph, Node, NodeTypeConfig
from graphrag.importers.json_values import Json
from graphrag.importers.report import ImportReport, Tally, UnreadableWorkflow
from graphrag.importers.workflow_draft import DraftNode, WorkflowDraft
from tools.checks.checked_graph import data_of

EdgeEnds = tuple[str, str, str, str]
# Limits of one import, so that it does not slow down others. The largest published workflows have
# some hundred nodes.
MAX_NODES, MAX_EDGES = 100_000, 400_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportTarget:
    """The destination of a file. Without `graph_key` the key is derived from the names of the
    workflow and the file.
    """

    file_name: str
    workspace: str
    graph_key: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportResult:
    """The documents of one graph read from a file, with a report. `configs` are the types that it
    uses.

    `kept` is the JSON of the file without its secrets, compressed by zlib.
    """

    graph: Graph
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    configs: tuple[NodeTypeConfig, ...]
    report: ImportReport
    kept: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedNode:
    """A node of the graph. `before` and `draft` are the node and its draft as read from the file;
    None if the file does not contain it.
    """

    node: Node
    before: Node | None = None
    draft: DraftNode | None = None

    def count_unwritten(self, written: Set[str], tally: Tally) -> None:
        """Counts the changed fields of data that the format cannot write; `written` are those it
        can.
        """
        now = data_of(self.node)
        was = data_of(self.before)
        for name in sorted((now.keys() | was.keys()) - written):
            if now.get(name) != was.get(name):
                shown = f"{now.get('name', self.node.key)}: {name}"
                tally.drop("field", "the format cannot store it", shown)


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """A file and the current graph: the changes that a patch writes into the file.

    `nodes` are by key; `gone` are nodes of the file that the graph no longer has. Edges are
    (source, output, target, input), by the keys of nodes.
    """

    draft: WorkflowDraft
    keys: Mapping[DraftNode, str]
    before: Graph
    graph: Graph
    nodes: Mapping[str, ChangedNode]
    gone: Sequence[DraftNode]
    added: Sequence[EdgeEnds]
    removed: frozenset[EdgeEnds]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileWriter:
    """Writes graphs as files of a format.

    `has_type` returns True if a type, by its name, belongs to the format. `empty` returns a file
    without nodes. `patch` writes the changes of a graph into a file and returns the entries of its
    nodes by key. `finish` returns the JSON to be given out; its second argument is True for a part
    of a graph that is copied for pasting. `new_id` returns the id of a node that the tool does not
    know yet.
    """

    has_type: Callable[[str], bool]
    empty: Callable[[Graph], Json]
    patch: Callable[[Json, Changed, Tally], Mapping[str, Json]]
    finish: Callable[[Json, bool], Any]
    new_id: Callable[[Node], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowFormat:
    """A format of workflow files. `title` names such a file in messages, as `an n8n workflow`.

    `recognise(document, tally)` returns the part of the document that is read, or None for a
    document of another format. `read(document, target, tally)` takes that part, without secrets
    unless the format `keeps_secrets`, and returns the documents of the graph or a draft of them. It
    is deterministic. Both count in the tally what they leave out or repair, and raise
    UnreadableWorkflow for a file of the format that cannot be used. Graphs can be exported to a
    format with a `writer`.
    """

    name: str
    title: str
    recognise: Callable[[Any, Tally], Json | None]
    read: Callable[[Json, ImportTarget, Tally], ImportResult | WorkflowDraft]
    writer: FileWriter | None = None
    keeps_secrets: bool = False


def check_size(what: str, number: int, most: int) -> None:
    """Raises UnreadableWorkflow if `number` exceeds the limit `most`; `what` names the things
    counted.
    """
    if number > most:
        reason = f"it has {number:,} {what}, the maximum is {most:,}; split the workflow"
        raise UnreadableWorkflow(reason=reason)
