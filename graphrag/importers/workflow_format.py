"""The declaration of a format of workflow files, and what a reader gets and returns."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from datasources.types import Edge, Graph, Node, NodeTypeConfig
from graphrag.importers.json_values import Json
from graphrag.importers.report import ImportReport, UnreadableWorkflow

MAX_NODES, MAX_EDGES = 100_000, 400_000
"""What one import may cost everybody else; the largest published workflows have some hundred nodes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportTarget:
    """Where a file goes; without `graph_key` the graph gets a key made of its names."""

    file_name: str
    workspace: str
    graph_key: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportResult:
    """A file as documents of one graph, and what is to be said about it. `configs` are the types it uses.

    `kept` is the file's JSON without its secrets, compressed.
    """

    graph: Graph
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    configs: tuple[NodeTypeConfig, ...]
    report: ImportReport
    kept: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowFormat:
    """A format. `title` is what a refusal calls a file of it, as `an n8n workflow`.

    `recognise(document)` returns what `read` takes, or None for a document of another format.
    `read` returns the same documents each time, `write` (of a format that is written, too) their file.
    Both `recognise` and `read` raise UnreadableWorkflow for a file of the format that cannot be used.
    """

    name: str
    title: str
    recognise: Callable[[Any], Json | None]
    read: Callable[[Json, ImportTarget], ImportResult]
    write: Callable[[Graph, Iterable[Node], Iterable[Edge], Iterable[NodeTypeConfig]], Json] | None = None


def check_size(what: str, number: int, most: int) -> None:
    """Raises: UnreadableWorkflow where a file has more of something than is taken."""
    if number > most:
        reason = f"it has {number:,} {what}, at most {most:,} are taken; split the workflow"
        raise UnreadableWorkflow(reason=reason)
