"""Takes from cosines what all nodes share with a question, where a model puts all texts close together.

Of e5, bge and gte even unrelated texts have a cosine of about .75: what tells nodes apart is a small part
of the score, and fused with other searches it counts for nothing. Scores then count from that of an
ordinary node, the median of the graph, or the last hit where a search was cut. It is done only where an
ordinary node scores four fifths of the best one: with e5-small it scores .89 of it or more in 99 of 100
questions, with the packaged model .77 or less, whose cosines lose by it. On 146 annotated questions
(e5-small, 4-bit) recall@5/recall@10/MRR of hybrid retrieval are .802/.939/.778 so, .787/.935/.762 without.

Source: Mu and Viswanath, "All-but-the-Top" (ICLR 2018), on the mean that embeddings have in common.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from datasources.hits import Hit

CROWDED: Final = 0.8
KEPT: Final = 1e-3
"""What is not above an ordinary node keeps this share of its score, and with it its place in the order."""


def apart(hits: Sequence[Hit], limit: int) -> list[Hit]:
    """Return hits, best first, scored by how far they are above an ordinary node; `limit` were asked for."""
    if not hits:
        return []
    ordinary = hits[-1].score if len(hits) >= limit else hits[len(hits) // 2].score
    if ordinary <= CROWDED * hits[0].score or ordinary >= 1:
        return list(hits)
    return [Hit(key, max((score - ordinary) / (1 - ordinary), KEPT * score)) for key, score in hits]
