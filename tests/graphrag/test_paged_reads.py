"""Pages of records and graphs: everything once, and little at a time."""

import pytest

from datasources.base import Record, RecordStore, RecordWrite
from datasources.mock import MemoryDatabase
from datasources.types import Edge, Graph, Mutation, Node
from graphrag.app.paged_reads import PAGE_BYTES, read_parts, read_records


@pytest.fixture
def records() -> RecordStore:
    return MemoryDatabase().records("acme")


async def store(records: RecordStore, count: int, size: int) -> None:
    await records.write(
        [
            RecordWrite(
                kind="trace", key=f"{i:05}", data={"text": "x" * size}, expected_version=None
            )
            for i in range(count)
        ]
    )


async def pages_of(records: RecordStore) -> list[list[Record]]:
    return [page async for page in read_records(records, "trace")]


@pytest.mark.parametrize("count", [0, 1, 9, 10, 11, 30, 2_345])
async def test_every_record_is_read_once_whatever_their_number(
    records: RecordStore, count: int
) -> None:
    await store(records, count, 5)
    pages = await pages_of(records)
    assert [record.key for page in pages for record in page] == [f"{i:05}" for i in range(count)]
    assert len(pages) <= 12


async def test_pages_of_large_records_are_short(records: RecordStore) -> None:
    await store(records, 40, 1_000_000)
    lengths = [len(page) for page in await pages_of(records)]
    assert lengths[0] == 10
    assert max(lengths[1:]) * 1_000_000 <= PAGE_BYTES
    assert sum(lengths) == 40


async def test_a_record_larger_than_a_page_is_read_alone(records: RecordStore) -> None:
    await store(records, 12, PAGE_BYTES + 1)
    assert [len(page) for page in await pages_of(records)] == [10, 1, 1]


async def test_a_small_graph_is_one_part_and_nodes_come_before_their_edges() -> None:
    source = MemoryDatabase().source("acme")
    nodes = [Node(key=f"{i:04}", graph_key="g", type="t") for i in range(1_500)]
    edges = [
        Edge(key=f"{i:04}", graph_key="g", source=nodes[i].key, target=nodes[i - 1].key)
        for i in range(1_500)
    ]
    for count in (0, 150, 1_500):
        key = f"g{count}"
        documents = [node.replace(graph_key=key) for node in nodes[:count]]
        links = [edge.replace(graph_key=key) for edge in edges[1:count]]
        graph = Graph(key=key, name="G", workspace="acme")
        content = Mutation(graph_key=key, put_nodes=documents, put_edges=links)
        await source.create_graph(graph, content)
        parts = [part async for part in read_parts(source, key)]
        assert len(parts) == 1 or count == 1_500
        assert [node for part in parts for node in part.put_nodes] == documents
        assert [edge for part in parts for edge in part.put_edges] == links
        known = set[str]()
        for part in parts:
            known |= {node.key for node in part.put_nodes}
            assert {end for edge in part.put_edges for end in (edge.source, edge.target)} <= known
