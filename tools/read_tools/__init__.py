"""The tools that read a graph; none of them changes anything.

A new one is a file here that holds all of it (arguments, description, example, run) and an entry below.
From outside: `READ_TOOLS`, and `views` for other tables of a graph.
"""

from __future__ import annotations

from typing import Any

from tools.base import Tool
from tools.read_tools.check import CHECK_GRAPH
from tools.read_tools.detail import READ_NODE_DETAIL
from tools.read_tools.edges import EXPLORE_NEIGHBORHOOD, LIST_NODE_EDGES, READ_SUBGRAPH
from tools.read_tools.overview import READ_GRAPH_OVERVIEW
from tools.read_tools.read_history import READ_HISTORY
from tools.read_tools.search_nodes import SEARCH_NODES
from tools.read_tools.search_workspace import SEARCH_WORKSPACE
from tools.read_tools.type_tools import LIST_NODE_TYPES, READ_NODE_CONFIG

READ_TOOLS: tuple[Tool[Any], ...] = (
    READ_GRAPH_OVERVIEW,
    SEARCH_NODES,
    EXPLORE_NEIGHBORHOOD,
    READ_NODE_DETAIL,
    READ_NODE_CONFIG,
    LIST_NODE_TYPES,
    LIST_NODE_EDGES,
    READ_SUBGRAPH,
    CHECK_GRAPH,
    READ_HISTORY,
    SEARCH_WORKSPACE,
)
