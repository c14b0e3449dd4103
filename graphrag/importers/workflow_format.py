"""The declaration of a format of workflow files, and what a reader gets and returns."""

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
MAX_NODES, MAX_EDGES = 100_000, 400_000
"""What one import may cost everybody else; the largest published workflows have
some hundred nodes.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportTarget:
    """Where a file goes; without `graph_key` the graph gets a key made of its names."""

    file_name: str
    workspace: str
    graph_key: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportResult:
    """A file as documents of one graph, and what is to be said about it. `configs` are the
    types it uses.

    `kept` is the file's JSON without its secrets, compressed.
    """

    graph: Graph
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    configs: tuple[NodeTypeConfig, ...]
    report: ImportReport
    kept: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedNode:
    """A node of the graph and, of one that the file has, what was read of it and how
    it was written.
    """

    node: Node
    before: Node | None = None
    draft: DraftNode | None = None

    def note_unsaid(self, said: Set[str], tally: Tally) -> None:
        """Count the fields of data that changed and that the format has no place for."""
        now = data_of(self.node)
        was = data_of(self.before)
        for name in sorted((now.keys() | was.keys()) - said):
            if now.get(name) != was.get(name):
                shown = f"{now.get('name', self.node.key)}: {name}"
                tally.drop("field", "the format has no place for it", shown)


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """A file that was read and its graph as it is now: what a patch brings into the file.

    `nodes` are by key; `gone` are what the file has and the graph has no more. Edges are
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
    """Writes graphs as files of a format. `has_type` tells which types are the format's own
    by their names.

    `empty` returns a file without nodes, `patch` brings a graph's changes into one and returns the
    entries of its nodes by their keys, and `finish` returns the file as it is given out; `is_part`:
    some nodes of a graph, to be pasted. `new_id` returns the id that a node gets which the tool
    does not know.
    """

    has_type: Callable[[str], bool]
    empty: Callable[[Graph], Json]
    patch: Callable[[Json, Changed, Tally], Mapping[str, Json]]
    finish: Callable[[Json, bool], Any]
    new_id: Callable[[Node], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowFormat:
    """A format. `title` is what a refusal calls a file of it, as `an n8n workflow`.

    `recognise(document, tally)` returns what is kept of the file, or None for a document of another
    format. `read(document, target, tally)` takes that, without secrets unless the format
    `keeps_secrets`, and returns the same documents each time, or the draft that they are made of.
    Both count in the tally what they leave out or repair, and raise UnreadableWorkflow for a file
    of the format that cannot be used. A format with a `writer` is written, too.
    """

    name: str
    title: str
    recognise: Callable[[Any, Tally], Json | None]
    read: Callable[[Json, ImportTarget, Tally], ImportResult | WorkflowDraft]
    writer: FileWriter | None = None
    keeps_secrets: bool = False


def check_size(what: str, number: int, most: int) -> None:
    """Raises: UnreadableWorkflow where a file has more of something than is taken."""
    if number > most:
        reason = f"it has {number:,} {what}, at most {most:,} are taken; split the workflow"
        raise UnreadableWorkflow(reason=reason)
