"""Nodes that call each other by name belong together in what is found, as nodes joined by an edge do."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from datasources.mock import MemoryDatabase
from datasources.types import Edge, Graph, Mutation, Node
from graphrag.retrieval import reference_links
from graphrag.retrieval.context_rows import why
from graphrag.retrieval.reference_links import ReferenceIndex, nearest
from graphrag.retrieval.retriever import Retriever
from tests.contracts.samples import FLOW, WORKSPACE, a_graph, a_node, an_edge
from tests.graphrag.retrieval.test_retriever import Counting

N8N = {"origin": {"format": "n8n"}}
CALL = "={{ $('Secret Vault').item.json.token }}"


def flow(steps: int = 40) -> tuple[list[Node], list[Edge]]:
    """A chain of steps of which one sends invoices; the vault is tied to it by a reference alone."""
    keys = [f"step-{i:02}" for i in range(steps)]
    nodes = [a_node(key, data={"name": key}) for key in keys]
    nodes[5] = a_node(keys[5], data={"name": "Send invoices", "auth": CALL})
    vault = a_node("vault", data={"name": "Secret Vault"})
    edges = [an_edge(f"{one}-{other}", one, other) for one, other in itertools.pairwise(keys)]
    return [*nodes, vault], edges


async def retriever_of(metadata: dict[str, Any] | None, source: Any = None) -> tuple[Retriever, Any]:
    source = source or MemoryDatabase().source(WORKSPACE)
    nodes, edges = flow()
    graph: Graph = a_graph(FLOW, metadata=metadata)
    await source.create_graph(graph, Mutation(graph_key=FLOW, put_nodes=nodes, put_edges=edges))
    counting = Counting(source)
    return Retriever(counting, None, cache_ttl_s=0), counting


async def test_a_question_brings_the_node_that_only_a_reference_ties_to_the_answer() -> None:
    retriever, _ = await retriever_of(N8N)
    found = {scored.node.key: scored for scored in (await retriever.retrieve(FLOW, "invoices")).nodes}
    assert why(found["vault"]).endswith("referred to by step-05")
    back = {scored.node.key: scored for scored in (await retriever.retrieve(FLOW, "secret vault")).nodes}
    assert why(back["step-05"]).endswith("refers to vault")


async def test_names_mean_nothing_in_a_graph_whose_nodes_do_not_call_each_other_so() -> None:
    retriever, counting = await retriever_of(None)
    found = await retriever.retrieve(FLOW, "invoices")
    assert "vault" not in {scored.node.key for scored in found.nodes}
    assert counting.count("get_nodes") == 0


async def test_references_are_read_once_a_revision() -> None:
    retriever, counting = await retriever_of(N8N)
    for question in ("invoices", "secret vault", "step"):
        await retriever.retrieve(FLOW, question)
    assert counting.count("get_nodes") == 1
    node = a_node("vault", data={"name": "Renamed"})
    await counting.apply(Mutation(graph_key=FLOW, put_nodes=[node]))
    found = await retriever.retrieve(FLOW, "invoices")
    assert counting.count("get_nodes") == 2
    assert "vault" not in {scored.node.key for scored in found.nodes}


async def test_a_graph_of_very_many_nodes_is_not_read_for_references(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reference_links, "MAX_NODES", 10)
    source = MemoryDatabase().source(WORKSPACE)
    nodes = [a_node(f"n{i}") for i in range(11)]
    graph = await source.create_graph(a_graph(FLOW, metadata=N8N), Mutation(graph_key=FLOW, put_nodes=nodes))
    counting = Counting(source)
    index = ReferenceIndex(counting)
    assert not (await index.of(graph)).refers_to
    assert counting.count("get_nodes") == 0


async def test_a_node_that_stands_beside_the_answer_is_found_where_the_nodes_were_laid_out() -> None:
    nodes, edges = flow()
    placed = [node.replace(pos_x=100.0 * i, pos_y=0.0) for i, node in enumerate(nodes)]
    heap = [node.replace(pos_x=0.0, pos_y=0.0) for node in nodes]
    beside = a_node("aside", data={"name": "Nobody asks for it"}, pos_x=510.0, pos_y=40.0)
    for shown, expected in (([*placed, beside], "beside step-05"), ([*heap, beside], "")):
        source = MemoryDatabase().source(WORKSPACE)
        content = Mutation(graph_key=FLOW, put_nodes=shown, put_edges=edges)
        await source.create_graph(a_graph(FLOW, metadata=N8N), content)
        found = await Retriever(source, None).retrieve(FLOW, "invoices")
        reasons = {scored.node.key: why(scored) for scored in found.nodes}
        assert (reasons.get("aside") or "").endswith(expected)
        assert ("aside" in reasons) is bool(expected)


def test_nearness_is_that_of_a_sheet() -> None:
    at = {"a": (0, "0"), "b": (10, "0"), "c": (11, "1"), "d": (40, "0"), "e": (12, "1")}
    nodes = [a_node(key, pos_x=float(x), pos_y=0.0, sheet=sheet) for key, (x, sheet) in at.items()]
    assert nearest(nodes) == {"a": ["b", "d"], "b": ["a", "d"], "d": ["b", "a"]}
    assert nearest([]) == {}
