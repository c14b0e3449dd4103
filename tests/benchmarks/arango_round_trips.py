"""How many round trips to ArangoDB each operation takes: `python -m
tests.benchmarks.arango_round_trips`.

Prints the table of docs/arangodb.md. The server is that of ARANGO_URL, else the double; the numbers
are those of this program and do not depend on it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import numpy as np

from datasources.arango import ArangoDatabase, parse_address
from datasources.base import MutableGraphDataSource, RecordWrite
from datasources.types import Mutation
from graphrag.embedding.local import LocalEmbedder
from graphrag.retrieval.retrieval_result import RetrievalOptions
from graphrag.retrieval.retriever import Retriever
from tests.contracts.samples import FLOW, WORKSPACE, a_node, a_vector, make_flow
from tests.support.arango import ArangoServer, running_server
from tests.support.arango_counting import RoundTrips, round_trips_of

Operation = Callable[[], Awaitable[Any]]


async def open_graph(source: MutableGraphDataSource) -> None:
    """Read a graph whole, as the page does when it is opened."""
    await asyncio.gather(
        source.get_graph(FLOW),
        source.get_nodes(FLOW),
        source.get_edges(FLOW),
        source.get_node_configs(),
    )


def operations(source: MutableGraphDataSource, retriever: Retriever) -> dict[str, Operation]:
    """Return what is counted, by the name it has in the table."""
    changed = [a_node(f"n{i}", data={"name": f"changed {i}"}) for i in range(100)]
    vectors = [a_vector(f"n{i}", *np.full(256, 0.5)) for i in range(100)]
    writes = [
        RecordWrite(kind="approval", key="a", data={"status": "applied"}, expected_version=None),
        RecordWrite(kind="audit", key="a", data={"sequence": 1}, expected_version=None),
    ]

    def retrieve(question: str, **options: Any) -> Operation:
        return lambda: retriever.retrieve(FLOW, question, RetrievalOptions(**options))

    return {
        "retrieval (hybrid)": retrieve("sort invoices"),
        "retrieval (vector)": retrieve("sort invoices", mode="vector"),
        "retrieval that finds nothing": retrieve("xyzzy", mode="text"),
        "retrieval from the cache": retrieve("sort invoices"),
        "open a graph": lambda: open_graph(source),
        "save 100 changed nodes": lambda: source.apply(Mutation(graph_key=FLOW, put_nodes=changed)),
        "approve a proposal": lambda: source.apply(
            Mutation(graph_key=FLOW, put_nodes=[a_node("b", data="new")]), records=writes
        ),
        "store 100 embeddings": lambda: source.put_embeddings(FLOW, vectors),
    }


async def measure(server: ArangoServer) -> dict[str, RoundTrips]:
    """Count each operation on a database of its own."""
    name = server.fresh()
    address = parse_address(server.address(name))
    try:
        async with ArangoDatabase(address, prepared=False) as database:
            await database.set_up()
            source = await make_flow(database)
            embedder = LocalEmbedder()
            retriever = Retriever(database.source(WORKSPACE), embedder)
            vector = (await embedder.embed(["sort invoices"]))[0]
            await source.put_embeddings(FLOW, [a_vector("c", *vector, model=embedder.model)])
            return {
                what: await round_trips_of(do) for what, do in operations(source, retriever).items()
            }
    finally:
        server.drop(name)


def table(counted: dict[str, RoundTrips]) -> str:
    """Return the counts as Markdown."""
    rows = [f"| {what} | {j.steps} | {j.requests} |" for what, j in counted.items()]
    return "\n".join(["| operation | one after the other | requests |", "|---|---|---|", *rows])


if __name__ == "__main__":
    for running in running_server():
        print(table(asyncio.run(measure(running))))
