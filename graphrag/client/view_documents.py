"""The bodies of what people who edit a graph see of it: all of it at one moment, and who else is there."""

from __future__ import annotations

from typing import Any

from graphrag.client.documents import Answer


class GraphView(Answer):
    """A graph as it is at one moment.

    `timestamp`: it holds every live edit up to then (0: nobody edits it). Units: milliseconds since 1970.
    """

    graph: dict[str, Any]
    nodes: list[dict[str, Any]]
    edges: list[dict[str, Any]]
    types: list[dict[str, Any]]
    timestamp: int


class Editor(Answer):
    """Somebody on a sheet of the graph, in so many windows."""

    user_id: str
    sheet: str
    windows: int


class EditorList(Answer):
    """`embedding`: nodes of the graph that wait to be embedded."""

    editors: list[Editor]
    embedding: int = 0
