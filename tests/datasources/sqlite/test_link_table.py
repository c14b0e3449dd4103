"""Tables of links to choose from hold the links that a source has."""

import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from datasources.base import GraphDataSource
from datasources.batches import BatchRequest
from datasources.computed_tables import ComputedTables
from datasources.links import Link, LinkTable, NodeChoice
from datasources.memory_overlay import MemoryOverlay
from datasources.sqlite import Limits
from datasources.types import Edge, Graph, Mutation, Node
from tests.contracts.samples import FLOW, a_graph, a_node, an_edge
from tests.datasources.sqlite.helpers import NOTHING_IS_SMALL, opened

KEYS = [f"nœud {i}" for i in range(30)]


async def table_of(
    source: GraphDataSource,
    graph: str,
    asked: Sequence[str],
    limit: int,
    more: Sequence[str] = (),
    max_degree: int = 99,
    rest: Sequence[str] = (),
) -> LinkTable:
    """Return the links that a source gives to choose from: of `asked`, then of `more` as well.

    These nodes lead its tables, and `rest` after them.
    """
    given: list[LinkTable] = []

    def choose(links: LinkTable) -> list[str]:
        given.append(links)
        return []

    def further(links: LinkTable) -> Sequence[str]:
        given.append(links)
        return more

    keys = [*asked, *rest]
    how = {"walked": len(asked), "limit": limit, "max_degree": max_degree}
    wanted = NodeChoice(keys=keys, further=further, choose=choose, **how)
    await ComputedTables(source).get_chosen(graph, wanted)
    assert all(table.keys[: len(keys)] == keys for table in given)
    return given[-1]


def pairs(table: LinkTable) -> Counter[Link]:
    assert len(set(table.keys)) == len(table.keys)
    return Counter(Link(table.keys[a], table.keys[b]) for a, b in table.ends.tolist())


def a_tangle() -> Mutation:
    """Return nodes with edges to themselves, to each other and twice the same way."""
    chance = random.Random(3)
    ends = [(chance.choice(KEYS), chance.choice(KEYS)) for _ in range(80)]
    return Mutation(
        graph_key=FLOW,
        put_nodes=[a_node(key) for key in KEYS],
        put_edges=[an_edge(f"e{i:02}", *pair) for i, pair in enumerate(ends)],
    )


@pytest.mark.parametrize("limits", [Limits(), NOTHING_IS_SMALL], ids=["held", "large"])
async def test_a_table_has_the_links_of_these_nodes(tmp_path: Path, limits: Limits) -> None:
    async with opened(tmp_path / "graphs.db", limits) as source:
        await source.create_graph(a_graph())
        await source.apply(a_tangle())
        for turn in range(3):
            for asked in ([], KEYS[:1], KEYS[:9], [*KEYS[5:15], "nobody"], KEYS):
                for limit in (0, 1, 7, 1_000):
                    table = await table_of(source, FLOW, asked, limit)
                    first = await source.get_links(FLOW, asked)
                    if len(first) > limit:  # hubs go
                        first = await source.get_links(FLOW, asked, max_degree=limit // len(asked))
                    assert len(first) <= limit
                    assert pairs(table) == Counter(first)
                for most in (0, 4, 6, 99):
                    rest = [key for key in ("gone", *KEYS[12:22]) if key not in asked]
                    table = await table_of(source, FLOW, asked, 1_000, KEYS[3:20], most, rest)
                    further = await source.get_links(FLOW, KEYS[3:20], max_degree=most)
                    assert pairs(table) == Counter(first) + Counter(further)
            if turn == 0:
                await source.build_indexes(FLOW)
            elif turn == 1:  # an index that does not know a node, and knows one that went
                await source.apply(
                    Mutation(
                        graph_key=FLOW,
                        put_nodes=[a_node("new")],
                        put_edges=[an_edge("new", KEYS[0], "new")],
                        delete_nodes=[KEYS[1]],
                    )
                )


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


async def test_a_live_graph_has_the_links_it_has_now(tmp_path: Path) -> None:
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
        assert pairs(await table_of(overlay, FLOW, ["live"], 9)) == Counter([Link("live", "other")])
        assert pairs(await table_of(overlay, "stored", ["a"], 9)) == Counter([Link("a", "b")])


@pytest.mark.parametrize("limits", [Limits(), NOTHING_IS_SMALL], ids=["held", "large"])
async def test_names_are_those_of_the_documents(tmp_path: Path, limits: Limits) -> None:
    called: list[dict[str, object] | None] = [
        {"name": " Fetch ", "aliases": ["Get", 3]},
        {"title": "Send", "aliases": "Mail"},
        None,
    ]
    nodes = [
        a_node(key).model_copy(update={"data": data})
        for key, data in zip(KEYS, called, strict=False)
    ]
    async with opened(tmp_path / "graphs.db", limits) as source:
        await source.create_graph(a_graph())
        await source.apply(Mutation(graph_key=FLOW, put_nodes=nodes))
        asked = [*KEYS[:3], "no such node", KEYS[0]]
        for _ in range(2):  # loaded, then held
            found = await ComputedTables(source).search_hits(
                FLOW, BatchRequest(query="fetch", limit=5), lambda *_: asked
            )
            assert [hit.key for hit in (*found.text, *found.name)] == [KEYS[0]] * 2
            assert found.names == {
                KEYS[0]: ["Fetch", "Get"],
                KEYS[1]: ["Send", "Mail"],
                KEYS[2]: [KEYS[2]],
            }
