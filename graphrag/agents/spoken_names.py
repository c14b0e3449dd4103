"""Names that callers are likely to say: those of the graphs that an agent reads.

A transcriber that is given names writes them as they are spelled. Source: OpenAI's types of the
Realtime session (`keywords` and `prompt` of `AudioTranscription`) and
https://developers.openai.com/api/docs/guides/speech-to-text#prompting.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from datasources.base import GraphDataSource
from datasources.errors import GraphNotFound
from datasources.types import Edge, Node
from tools.http.secret_values import Secrets
from tools.references import name_of

MAX_NAMES: Final = 40
MAX_CHARS: Final = 600  # of all names together
NAME_CHARS: Final = 40
MAX_NODES: Final = 1_000  # read of one graph
MAX_EDGES: Final = 3_000
# not spoken as they are written: addresses, expressions, code, long numbers
_UNSPOKEN: Final = re.compile(r"https?:|www\.|[{}<>@=\\/|_`$]|\d{5}")


async def spoken_names(
    source: GraphDataSource, graphs: Sequence[str], secrets: Secrets
) -> tuple[str, ...]:
    """Returns names of graphs and their nodes, those with the most connections first.

    Leaves out names that nobody says, and those that contain a secret. Raises: SourceError.
    """
    titles: list[str] = []
    counts = Counter[str]()
    for key in graphs:
        try:
            graph = await source.get_graph(key)
        except GraphNotFound:
            continue
        nodes = await source.get_nodes(key, limit=MAX_NODES)
        edges = await source.get_edges(key, limit=MAX_EDGES)
        titles.append(graph.name)
        counts.update(await asyncio.to_thread(_used, nodes, edges))
    return _chosen((*titles, *(name for name, _ in counts.most_common())), secrets)


def _used(nodes: Sequence[Node], edges: Sequence[Edge]) -> Counter[str]:
    """Returns how many connections the nodes of each name have."""
    ends = Counter(key for edge in edges for key in (edge.source, edge.target))
    counts = Counter[str]()
    for node in nodes:
        if (name := name_of(node)) is not None:
            counts[" ".join(name.split())] += 1 + ends[node.key]
    return counts


def _chosen(names: Iterable[str], secrets: Secrets) -> tuple[str, ...]:
    """Returns the first names that are spoken, each once, within the limits."""
    chosen: dict[str, str] = {}
    left = MAX_CHARS
    for name in names:
        is_spoken = 2 <= len(name) <= NAME_CHARS and any(map(str.isalpha, name))
        if not is_spoken or _UNSPOKEN.search(name) or name.casefold() in chosen:
            continue
        if secrets.mask(name) != name or len(name) > left:
            continue
        chosen[name.casefold()] = name
        left -= len(name)
        if len(chosen) == MAX_NAMES:
            break
    return tuple(chosen.values())
