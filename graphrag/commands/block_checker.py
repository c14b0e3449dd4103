"""Checks the blocks of a message when it is sent: that their targets exist and their periods are valid."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from datasources.base import GraphDataSource
from datasources.builtin_types import types_by_name
from datasources.text import node_label
from datasources.types import Graph
from graphrag.commands.blocks import (
    Block,
    BlockRefused,
    SentBlock,
    Target,
    check_blocks,
    segments_of,
    summary,
    with_instants,
)
from graphrag.commands.edge_lookup import edge_by_key
from graphrag.i18n import Language
from graphrag.leases import now_ms
from graphrag.llm.base import UserMessage, clean
from graphrag.sessions.periods import Calendar
from tools.compact import cut_name
from tools.key_suggestions import describe_near, near_nodes

NAME_CHARS = 60
NEAR = 5
COMPARED = 5_000
"""So many keys are looked through for one that may be meant."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockChecker:
    """Makes messages of what people send. Units: `clock` in milliseconds since 1970."""

    source: GraphDataSource
    calendar: Calendar
    clock: Callable[[], int] = now_ms

    async def checked(
        self,
        graph_key: str,
        words: str,
        blocks: Sequence[SentBlock],
        language: Language,
        *,
        calendar: Calendar | None = None,
        keep_relative: bool = False,
    ) -> UserMessage:
        """Return the message of a person who sends words and blocks, with instants for its periods.

        With `keep_relative` periods stay as written: those of a template count when it is run.
        Raises: TooManyBlocks, BlockRefused (with the keys that may be meant), GraphNotFound.
        """
        if not blocks:
            return UserMessage(content=clean(words))
        check_blocks(blocks)
        calendar = calendar or self.calendar
        resolved = with_instants(blocks, self.clock(), calendar)
        kept = list(blocks) if keep_relative else resolved
        names = await self.names(graph_key, kept)
        said = {block.id: summary(block, names[block.id], language, calendar) for block in kept}
        content, segments = segments_of(clean(words), kept, said)
        return UserMessage(content=content, segments=segments)

    async def names(self, graph_key: str, blocks: Sequence[Block]) -> dict[str, str]:
        """Return what the target of each block is called. Raises: BlockRefused, GraphNotFound."""
        graph = await self.source.get_graph(graph_key)
        found: dict[str, str] = {}
        for number, block in enumerate(blocks, start=1):
            name, near = await self.name(graph, block.target)
            if name is None:
                facts = {"kind": block.target.kind, "key": block.target.key[:100], "near": near or "–"}
                raise BlockRefused(number=number, why="without_target", **facts)
            found[block.id] = cut_name(name, NAME_CHARS)
        return found

    async def name(self, graph: Graph, target: Target) -> tuple[str | None, str | None]:
        """Return the name of a target, or None and the keys that may be meant."""
        key = target.key
        match target.kind:
            case "graph":
                return (graph.name, None) if key == graph.key else (None, graph.key)
            case "sheet":
                return graph.sheets_list.get(key), _near(key, graph.sheets_list)
            case "nodeType":
                types = types_by_name(await self.source.get_node_configs())
                return (types[key].display_name, None) if key in types else (None, _near(key, types))
            case "node":
                nodes = await self.source.get_nodes_by_key(graph.key, [key])
                if nodes:
                    return node_label(nodes[0]), None
                return None, describe_near(await near_nodes(self.source, graph, key), graph)
            case "edge":
                edge = await edge_by_key(self.source, graph.key, key)
                if edge is not None:
                    return f"{edge.source} → {edge.target}", None
                others = await self.source.get_edges(graph.key, limit=COMPARED)
                return None, _near(key, [other.key for other in others])


def _near(key: str, known: Iterable[str]) -> str | None:
    near = difflib.get_close_matches(key, list(known)[:COMPARED], n=NEAR, cutoff=0.5)
    return ", ".join(near) or None
