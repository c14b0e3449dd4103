"""Signal: the edges of the best hits, and the edges of the best nodes that these lead to.

Two steps connect two passages through an entity that both mention.
"""

from __future__ import annotations

from collections.abc import Mapping

from datasources.links import LinkTable
from graphrag.retrieval.hit_edges import HitEdges
from graphrag.retrieval.rank import RankOptions, frontier


async def edges(
    reads: HitEdges,
    fused: Mapping[str, float],
    walked: int,
    options: RankOptions,
    *,
    second_step: bool,
) -> LinkTable:
    """Returns the edges for ranking. The table begins with the nodes of `fused`, and the edges of
    the first `walked` of them are read. It may contain an edge twice.
    """
    keys = list(fused)
    table = LinkTable.of(await reads.at(keys[:walked]), keys)
    further = frontier(table, fused, walked, options) if second_step else []
    return table.joined(LinkTable.of(await reads.beyond(further))) if further else table
