from hypothesis import given
from hypothesis import strategies as st

from datasources.mock import MemoryDatabase
from datasources.types import Edge, Graph, Mutation, Node, ScoredNode
from graphrag.retrieval.retrieval_result import RetrievalOptions
from graphrag.retrieval.retriever import Retriever
from graphrag.retrieval.signals.twin_signal import one_place_each, twins_among

GRAPH = "g"
TEXT = "Vorlo is a town by the sea."


def node(key: str, name: str, node_type: str, text: str = "") -> Node:
    data = {"name": name} | ({"text": text} if text else {})
    return Node(key=key, graph_key=GRAPH, type=node_type, data=data)


def edge(source: str, target: str) -> Edge:
    return Edge(
        key=f"{source}-{target}",
        graph_key=GRAPH,
        source=source,
        source_handle="out",
        target=target,
        target_handle="in",
    )


def scored(*pairs: tuple[Node, float]) -> list[ScoredNode]:
    return [ScoredNode(node=one, score=score, reasons=()) for one, score in pairs]


PASSAGE = node("p", "Vorlo", "passage", TEXT)
ENTITY = node("e", "vorlo", "entity")
OTHER = node("o", "Other", "entity")


def order(nodes: list[ScoredNode]) -> list[str]:
    return [one.node.key for one in nodes]


def test_nodes_of_one_name_and_two_types_that_an_edge_joins_are_twins() -> None:
    nodes = scored((ENTITY, 1.0), (OTHER, 0.5), (PASSAGE, 0.4))
    assert twins_among(nodes, [edge("p", "e"), edge("p", "o")]) == {("p", "e"), ("e", "p")}
    assert twins_among(nodes, [edge("p", "o")]) == frozenset()
    alike = scored((node("a", "If", "if"), 1.0), (node("b", "If", "if"), 0.9))
    assert twins_among(alike, [edge("a", "b")]) == frozenset()


def test_of_twins_the_one_that_says_less_stands_last() -> None:
    nodes = scored((ENTITY, 1.0), (PASSAGE, 0.9), (OTHER, 0.5))
    shown = one_place_each(nodes, twins_among(nodes, [edge("p", "e")]))
    assert [(one.node.key, one.score) for one in shown] == [("p", 0.9), ("o", 0.5), ("e", 0.5)]


def test_a_twin_of_a_node_that_is_not_shown_keeps_its_place() -> None:
    nodes = scored((ENTITY, 1.0), (OTHER, 0.9), (PASSAGE, 0.5))
    twins = twins_among(nodes, [edge("p", "e")])
    assert order(one_place_each(nodes[:2], twins)) == ["e", "o"]


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("xy"), st.floats(0, 1)), max_size=12)
)
def test_no_node_is_lost_and_scores_fall(drawn: list[tuple[str, str, float]]) -> None:
    made = [(node(str(i), name, of), score) for i, (name, of, score) in enumerate(drawn)]
    nodes = scored(*sorted(made, key=lambda pair: -pair[1]))
    edges = [edge(str(i), str(j)) for i in range(len(made)) for j in range(i)]
    twins = twins_among(nodes, edges)
    shown = one_place_each(nodes, twins)
    assert sorted(order(shown)) == sorted(order(nodes))
    assert [one.score for one in shown] == sorted((one.score for one in shown), reverse=True)


async def test_a_place_is_left_for_another_node_where_twins_are_found() -> None:
    source = MemoryDatabase().source("default")
    await source.create_graph(Graph(key=GRAPH, name="Towns", workspace="default"))
    names = ("Vorlo", "Tarn", "Melk", "Ulda", "Ostra", "Bremo")
    nodes = [
        node(f"p{i}", name, "passage", f"{name} is a town by the sea.")
        for i, name in enumerate(names)
    ]
    nodes += [node(f"e{i}", name, "entity") for i, name in enumerate(names)]
    edges = [edge(f"p{i}", f"e{i}") for i in range(len(names))]
    await source.apply(Mutation(graph_key=GRAPH, put_nodes=nodes, put_edges=edges))
    retriever = Retriever(source, None, options=RetrievalOptions(max_nodes=8))
    found = await retriever.retrieve(
        GRAPH, "Which towns are by the sea: Vorlo, Tarn, Melk or Ulda?"
    )
    assert set(order(list(found.nodes))[:6]) == {f"p{i}" for i in range(6)}
    assert len(found.nodes) == 8
