"""Places of nodes on a canvas: whole graphs arranged, new nodes put in, crossings counted.

Pure: documents in, boxes out; knows no store and no server. A note or group is a box that holds the
nodes inside it, and what serves a node from below (an agent's tools and models) stands under it.
Units: the editor's pixels.

From outside: the names of `__all__`.
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
