"""Arranges the nodes of a graph on a canvas, places new nodes, and counts crossing edges.

Pure: takes documents and returns boxes; independent of stores and servers. A note or group is a box
around the nodes inside it, and nodes that serve another from below (an agent's tools and models)
are placed under it. Units: the editor's pixels.

Other packages import the names of `__all__`.
"""

from __future__ import annotations

from graphrag.layout.arrange import MAX_EDGES, MAX_NODES, TooMuchToArrange, arrange
from graphrag.layout.boxes import Box, crossings, holders
from graphrag.layout.placement import place_nodes

__all__ = [
    "MAX_EDGES",
    "MAX_NODES",
    "Box",
    "TooMuchToArrange",
    "arrange",
    "crossings",
    "holders",
    "place_nodes",
]
