"""The check before a write: what it asks to look up is all it needs, and a refusal
names the documents.
"""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datasources.errors import BadDocument, InvalidMutation
from datasources.mutations import (
    Existing,
    check_mutation,
    check_owner,
    encode_document,
    keys_to_look_up,
)
from datasources.types import Mutation
from tests.contracts.samples import (
    FLOW,
    OTHER,
    WORKSPACE,
    a_graph,
    a_node,
    a_type,
    a_vector,
    an_edge,
)

names = st.sampled_from(["a", "b", "c", "d", "e"])
some = st.lists(names, max_size=3)
existing_sets = st.frozensets(names)
mutations = st.builds(
    lambda nodes, edges, gone, cut, types, dropped, vectors: Mutation(
        graph_key=FLOW,
        put_nodes=[a_node(key) for key in nodes],
        put_edges=[an_edge(key, source, target) for key, source, target in edges],
        delete_nodes=gone,
        delete_edges=cut,
        put_configs=[a_type(key) for key in types],
        delete_configs=dropped,
        put_vectors=[a_vector(key, 1.0) for key in vectors],
    ),
    some,
    st.lists(st.tuples(names, names, names), max_size=3),
    some,
    some,
    some,
    some,
    some,
)


def verdict(mutation: Mutation, existing: Existing) -> tuple[str, tuple[str, ...]] | None:
    try:
        check_mutation(mutation, graph=a_graph(), existing=existing)
    except InvalidMutation as exc:
        return exc.reason, exc.keys
    return None


@given(mutations, existing_sets, existing_sets, existing_sets)
def test_looking_up_what_is_asked_for_decides_as_knowing_everything(
    mutation: Mutation, nodes: frozenset[str], edges: frozenset[str], configs: frozenset[str]
) -> None:
    asked = keys_to_look_up(mutation)
    found = Existing(
        nodes=nodes & asked.nodes, edges=edges & asked.edges, configs=configs & asked.configs
    )
    everything = Existing(nodes=nodes, edges=edges, configs=configs)
    assert verdict(mutation, found) == verdict(mutation, everything)


@given(mutations, existing_sets, existing_sets, existing_sets)
def test_what_is_let_through_leaves_no_edge_without_its_nodes(
    mutation: Mutation, nodes: frozenset[str], edges: frozenset[str], configs: frozenset[str]
) -> None:
    existing = Existing(nodes=nodes, edges=edges, configs=configs)
    if verdict(mutation, existing) is not None:
        return
    after = (nodes - set(mutation.delete_nodes)) | {node.key for node in mutation.put_nodes}
    assert all(edge.source in after and edge.target in after for edge in mutation.put_edges)
    assert all(vector.key in after for vector in mutation.put_vectors)
    assert set(mutation.delete_nodes) <= nodes
    assert not set(mutation.delete_nodes) & {node.key for node in mutation.put_nodes}


def test_an_empty_mutation_needs_no_look_up() -> None:
    mutation = Mutation(graph_key=FLOW)
    assert keys_to_look_up(mutation) == Existing(nodes=set(), edges=set(), configs=set())
    assert verdict(mutation, Existing()) is None


def test_a_refusal_of_many_shows_a_few_and_carries_all() -> None:
    gone = [f"n{i}" for i in range(9)]
    with pytest.raises(InvalidMutation, match=r"n0, n1, n2, n3, n4 and 4 more") as caught:
        check_mutation(
            Mutation(graph_key=FLOW, delete_nodes=gone), graph=a_graph(), existing=Existing()
        )
    assert list(caught.value.keys) == gone


def test_a_new_sheet_counts_for_the_nodes_put_with_it() -> None:
    graph = a_graph().replace(sheets_list={"0": "main", "9": "new"})
    mutation = Mutation(graph_key=FLOW, graph=graph, put_nodes=[a_node("n", sheet="9")])
    assert verdict(mutation, Existing()) is None


def test_a_document_of_another_workspace_is_refused_by_field() -> None:
    check_owner(a_graph(), WORKSPACE, "graphs")
    with pytest.raises(
        BadDocument, match=f"is '{OTHER}', but this source writes to '{WORKSPACE}'"
    ) as caught:
        check_owner(a_graph(workspace=OTHER), WORKSPACE, "graphs")
    assert (caught.value.collection, caught.value.key, caught.value.field) == (
        "graphs",
        FLOW,
        "workspace",
    )


@pytest.mark.parametrize("data", [2**70, {1: "x"}, {"x": {1, 2}}, "half \ud800 pair", object()])
def test_what_json_cannot_hold_is_refused_by_key(data: Any) -> None:
    with pytest.raises(BadDocument) as caught:
        encode_document(a_node("n", data=data), "nodes", "n")
    assert (caught.value.collection, caught.value.key) == ("nodes", "n")


def test_data_nested_too_deep_is_refused_by_key() -> None:
    deep: Any = "end"
    for _ in range(100_000):
        deep = [deep]
    node = a_node("n").model_copy(update={"data": deep})
    with pytest.raises(BadDocument) as caught:
        encode_document(node, "nodes", "n")
    assert caught.value.key == "n"
