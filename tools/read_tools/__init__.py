"""The tools that read a graph; none of them changes anything.

To add a tool, write one module here with its arguments, description, example and run
function, and add it to `READ_TOOLS`.
Public: `READ_TOOLS`, and `views`, the rows and tables of a graph.
"""

from __future__ import annotations

from typing import Any

from tools.base import Tool
from tools.read_tools import (
    check,
    detail,
    edges,
    overview,
    read_history,
    search_nodes,
    search_workspace,
    type_tools,
)

READ_TOOLS: tuple[Tool[Any], ...] = (
    overview.read_graph_overview,
    search_nodes.search_nodes,
    edges.explore_neighborhood,
    detail.read_node_detail,
    type_tools.read_node_config,
    type_tools.list_available_node_types,
    edges.list_node_edges,
    edges.read_subgraph,
    check.check_graph,
    read_history.read_history,
    search_workspace.search_workspace,
)
