"""Another workspace's graph does not exist, whatever key is tried: documents of
both share collections.
"""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from datasources.arango import parse_address
from datasources.base import Database
from datasources.errors import GraphNotFound, InvalidMutation
from datasources.hits import VectorQuery
from datasources.links import LinkWalk
from datasources.types import Mutation
from tests.contracts import samples
from tests.contracts.searches import search_text, search_vectors
from tests.contracts.workspaces import CALLS
from tests.support.arango_synced import SyncedDatabase

SECRET = "quokka"
VICTIM = "a-b"
"""Whose documents have keys as a graph `a` with nodes `b-…` would."""

near = st.sampled_from(
    [VICTIM, "a", "b", "a-b-n", "a-b-", "A-B", "a-b ", "a%2Db", "nodius_graphs/a-b", "%", ""]
)
graphs = st.builds("".join, st.lists(near | st.text(max_size=3), min_size=1, max_size=2))


@pytest.fixture(params=[5_000, pytest.param(-1, marks=pytest.mark.slow)], ids=["small", "large"])
async def database(arango_address: str, request: pytest.FixtureRequest) -> AsyncIterator[Database]:
    async with SyncedDatabase(parse_address(arango_address), exact_nodes=request.param) as database:
        victim = await samples.make_flow(database, samples.WORKSPACE, VICTIM)
        secret = samples.a_node("n", VICTIM, data=SECRET, type=SECRET)
        await victim.apply(
            Mutation(
                graph_key=VICTIM,
                put_nodes=[secret],
                put_edges=[samples.an_edge("e", "n", "a", VICTIM)],
            )
        )
        await victim.put_node_config(samples.a_type(SECRET, display_name=SECRET))
        await victim.put_embeddings(VICTIM, [samples.a_vector("n", 1, 0, hash=SECRET)])
        yield database


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
async def test_whatever_is_asked_a_stranger_finds_nothing(
    database: Database, data: st.DataObject
) -> None:
    graph = data.draw(graphs)
    method = data.draw(st.sampled_from(sorted(CALLS)))
    stranger = database.source(samples.OTHER)
    with pytest.raises(GraphNotFound):
        await CALLS[method](stranger, graph)
    assert await stranger.list_graphs() == []
    assert await stranger.get_node_configs() == []


async def test_a_graph_whose_documents_have_keys_of_another_finds_none_of_them(
    database: Database,
) -> None:
    victim = database.source(samples.WORKSPACE)
    stranger = database.source(samples.OTHER)
    before = await samples.snapshot(victim, VICTIM)
    await stranger.create_graph(samples.a_graph("a", samples.OTHER))
    await stranger.apply(Mutation(graph_key="a", put_nodes=[samples.a_node("mine", "a")]))
    keys = ["b-n", "b-a", "b-e"]
    found: list[Any] = [
        await stranger.get_nodes_by_key("a", keys),
        await stranger.get_edges_of("a", keys),
        await stranger.get_links("a", keys),
        await stranger.get_typed_links("a", LinkWalk(keys=keys, steps=3, limit=50, max_degree=50)),
        list((await stranger.get_neighborhood("a", keys, max_depth=3, limit=50)).nodes),
        await stranger.get_vector_info("a", keys),
        await stranger.get_vectors("a", keys),
        await search_text(stranger, "a", SECRET, limit=5),
        await search_vectors(
            stranger, "a", VectorQuery(vector=samples.floats(1, 0), model=samples.MODEL, limit=5)
        ),
        await stranger.put_embeddings("a", [samples.a_vector("b-n", 9, 9)]),
    ]
    assert not any(found), found
    assert await samples.snapshot(victim, VICTIM) == before


@pytest.mark.parametrize(
    "change",
    [
        {"put_nodes": [samples.a_node("b-n", "a", data="taken over")]},
        {"delete_nodes": ["b-n"]},
        {"delete_edges": ["b-e"]},
        {"put_edges": [samples.an_edge("b-e", "mine", "mine", "a")]},
        {"put_edges": [samples.an_edge("bridge", "mine", "b-n", "a")]},
        {"put_vectors": [samples.a_vector("b-n", 9, 9)]},
    ],
    ids=lambda change: next(iter(change)),
)
async def test_what_would_write_to_another_graphs_documents_is_refused(
    database: Database, change: dict[str, Any]
) -> None:
    victim = database.source(samples.WORKSPACE)
    stranger = database.source(samples.OTHER)
    await stranger.create_graph(samples.a_graph("a", samples.OTHER))
    await stranger.apply(Mutation(graph_key="a", put_nodes=[samples.a_node("mine", "a")]))
    before = await samples.snapshot(victim, VICTIM), await samples.snapshot(stranger, "a")
    with pytest.raises(InvalidMutation):
        await stranger.apply(Mutation(graph_key="a", **change))
    assert (await samples.snapshot(victim, VICTIM), await samples.snapshot(stranger, "a")) == before


async def test_deleting_such_a_graph_spares_the_other(database: Database) -> None:
    victim = database.source(samples.WORKSPACE)
    stranger = database.source(samples.OTHER)
    await stranger.create_graph(samples.a_graph("a", samples.OTHER))
    await stranger.apply(Mutation(graph_key="a", put_nodes=[samples.a_node("mine", "a")]))
    before = await samples.snapshot(victim, VICTIM)
    await stranger.delete_graph("a")
    assert await samples.snapshot(victim, VICTIM) == before
