"""The edges around hits are the same, read on request or sent along with the hits."""

import random
from pathlib import Path

import pytest

from datasources.base import GraphDataSource
from datasources.links import Link, LinkWalk, TypedLink
from datasources.memory_overlay import MemoryOverlay
from datasources.search import HitLinks
from datasources.sqlite import Limits
from datasources.types import Edge, Graph, Mutation, Node
from graphrag.retrieval.hit_edges import MAX_DEGREE, HitEdges
from tests.contracts.samples import FLOW, a_graph, a_node, an_edge
from tests.datasources.sqlite.helpers import NOTHING_IS_SMALL, opened

KEYS = [f"nœud {i}" for i in range(30)]


def reads_of(
    source: GraphDataSource, graph: str = FLOW, sent: HitLinks | None = None, limit: int = 5_000
) -> HitEdges:
    return HitEdges(source=source, graph_key=graph, sent=sent, limit=limit)


def a_tangle() -> Mutation:
    """Returns nodes with edges to themselves, to each other and twice the same way."""
    chance = random.Random(3)
    ends = [(chance.choice(KEYS), chance.choice(KEYS)) for _ in range(80)]
    return Mutation(
        graph_key=FLOW,
        put_nodes=[a_node(key) for key in KEYS],
        put_edges=[an_edge(f"e{i:02}", *pair) for i, pair in enumerate(ends)],
    )


@pytest.mark.parametrize("limits", [Limits(), NOTHING_IS_SMALL], ids=["held", "large"])
@pytest.mark.parametrize("most", [9, 5_000])
async def test_edges_are_read_on_request_without_hubs_if_there_are_too_many(
    tmp_path: Path, limits: Limits, most: int
) -> None:
    async with opened(tmp_path / "graphs.db", limits) as source:
        await source.create_graph(a_graph())
        await source.apply(a_tangle())
        reads = reads_of(source, limit=most)
        for asked in ([], KEYS[:1], KEYS[:9], [*KEYS[5:15], "nobody"], KEYS):
            first = await source.get_links(FLOW, asked)
            if len(first) > most:
                first = await source.get_links(FLOW, asked, max_degree=most // len(asked))
            assert list(await reads.at(asked)) == first
            further = await source.get_links(FLOW, asked, max_degree=MAX_DEGREE)
            assert list(await reads.beyond(asked)) == further


async def test_edges_that_came_with_the_hits_are_not_read_again(tmp_path: Path) -> None:
    async with opened(tmp_path / "graphs.db") as source:
        links = [TypedLink("a", "b", "made"), TypedLink("b", "c", "")]
        sent = HitLinks(links=links, further=[Link("c", "d")], is_cut=False)
        reads = reads_of(source, sent=sent)  # a graph that does not exist: a read would be refused
        assert list(await reads.at(["a"])) == [Link("a", "b")]
        assert list(await reads.at(["c", "a"])) == [Link("a", "b"), Link("b", "c")]
        assert list(await reads.beyond(["c"])) == [Link("c", "d")]
        assert await reads.typed(LinkWalk(keys=["a"], limit=9, max_degree=9)) == links


async def test_edges_that_were_cut_are_read_from_the_source(tmp_path: Path) -> None:
    async with opened(tmp_path / "graphs.db") as source:
        await source.create_graph(a_graph())
        await source.apply(a_tangle())
        sent = HitLinks(links=[TypedLink(KEYS[0], KEYS[1], "")], further=[], is_cut=True)
        reads = reads_of(source, sent=sent)
        assert list(await reads.at(KEYS)) == await source.get_links(FLOW, KEYS)
        assert len(await reads.beyond(KEYS)) > 1
        assert len(await reads.typed(LinkWalk(keys=KEYS, limit=99, max_degree=99))) > 1


class _Live:
    """A live graph of two nodes and one edge."""

    def live_keys(self) -> list[str]:
        return [FLOW]

    async def get_live_graph(self, graph_key: str) -> Graph | None:
        return a_graph() if graph_key == FLOW else None

    async def get_live_nodes(self, graph_key: str) -> list[Node] | None:
        return [a_node("live"), a_node("other")]

    async def get_live_edges(self, graph_key: str) -> list[Edge] | None:
        return [an_edge("e", "live", "other")]


async def test_a_live_graph_has_the_edges_it_has_now(tmp_path: Path) -> None:
    async with opened(tmp_path / "graphs.db") as source:
        for key in (FLOW, "stored"):
            await source.create_graph(a_graph(key))
        await source.apply(
            Mutation(
                graph_key="stored",
                put_nodes=[a_node("a", "stored"), a_node("b", "stored")],
                put_edges=[an_edge("ab", "a", "b", "stored")],
            )
        )
        overlay = MemoryOverlay(source, _Live())
        assert list(await reads_of(overlay).at(["live"])) == [Link("live", "other")]
        assert list(await reads_of(overlay, "stored").at(["a"])) == [Link("a", "b")]
