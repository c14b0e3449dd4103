"""The contract of a graph source, whole: a subclass supplies the fixture `factory` and runs
all of it.
"""

import pytest

from datasources.base import RecordWrite
from datasources.hits import VectorQuery
from datasources.types import Mutation
from tests.contracts import samples
from tests.contracts.base import Contract, Factory
from tests.contracts.everywhere import EverywhereContract
from tests.contracts.reading import NeighborhoodContract, ReadContract
from tests.contracts.records import a_record
from tests.contracts.refusing import EmbeddingContract, RefusalContract
from tests.contracts.search_requests import SearchRequestContract
from tests.contracts.searches import search_text, search_vectors
from tests.contracts.searching import TextSearchContract, VectorSearchContract
from tests.contracts.workspaces import WorkspaceContract
from tests.contracts.writing import DocumentContract, GraphContract, MutationContract


class GraphSourceContract(
    ReadContract,
    NeighborhoodContract,
    TextSearchContract,
    VectorSearchContract,
    SearchRequestContract,
    DocumentContract,
    GraphContract,
    MutationContract,
    RefusalContract,
    EmbeddingContract,
    WorkspaceContract,
    EverywhereContract,
):
    """All that every source does."""


class DurableContract(Contract):
    """What a database that outlives its process does besides: `factory` opens the
    same one again.
    """

    async def test_everything_is_there_when_opened_again(self, factory: Factory) -> None:
        async with factory() as database:
            source = await samples.make_flow(database)
            await source.put_node_config(samples.a_type("log", display_name="Chronicle"))
            await source.put_embeddings(samples.FLOW, [samples.a_vector("a", 1, 0, name=(0, 1))])
            write = RecordWrite(kind="audit", key="k", data={"sequence": 1}, expected_version=None)
            await source.apply(
                Mutation(graph_key=samples.FLOW, delete_nodes=["b"]), records=[write]
            )
            before = await samples.snapshot(source)
            record = await database.records(samples.WORKSPACE).get("audit", "k")
        async with factory() as database:
            source = database.source(samples.WORKSPACE)
            assert await samples.snapshot(source) == before
            assert await database.records(samples.WORKSPACE).get("audit", "k") == record
            assert samples.keys_of(
                await search_text(source, samples.FLOW, "chronicle", limit=5)
            ) == ["d"]
            for field, vector in (
                ("content", samples.floats(1, 0)),
                ("name", samples.floats(0, 1)),
            ):
                hits = await search_vectors(
                    source,
                    samples.FLOW,
                    VectorQuery(vector=vector, model=samples.MODEL, limit=5, field=field),
                )
                assert samples.keys_of(hits) == ["a"]

    async def test_writing_goes_on_where_it_stopped(self, factory: Factory) -> None:
        async with factory() as database:
            await samples.make_flow(database)
        async with factory() as database:
            source = database.source(samples.WORKSPACE)
            assert await source.apply(Mutation(graph_key=samples.FLOW, delete_nodes=["a"])) == 2
            await database.records(samples.WORKSPACE).put(a_record("k"), expected_version=None)
        async with factory() as database:
            source = database.source(samples.WORKSPACE)
            assert (await source.get_graph(samples.FLOW)).revision == 2
            assert samples.keys_of(await source.get_nodes(samples.FLOW)) == ["apart", "b", "c", "d"]
            assert await database.records(samples.WORKSPACE).get("approval", "k") is not None

    async def test_an_opened_and_closed_database_is_empty(self, factory: Factory) -> None:
        async with factory():
            pass
        async with factory() as database:
            assert await database.source(samples.WORKSPACE).list_graphs() == []

    async def test_an_error_inside_loses_nothing_acknowledged(self, factory: Factory) -> None:
        with pytest.raises(KeyError, match="of the caller"):
            await _write_and_fail(factory)
        async with factory() as database:
            assert len(await database.source(samples.WORKSPACE).get_nodes(samples.FLOW)) == 5


async def _write_and_fail(factory: Factory) -> None:
    async with factory() as database:
        await samples.make_flow(database)
        raise KeyError("of the caller")
